"""Logs of torch.compile from elsewhere, read as captures: the structured trace that `TORCH_TRACE`
writes, and the folders of `TORCH_COMPILE_DEBUG`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.common.saved_files import BadFile, file_bytes, json_in
from kernellab.common.system import why_unreadable
from kernellab.errors import ArchiveError, SourcePosition
from kernellab.graphs import torch_texts
from kernellab.graphs.guards import guards_in, recompilations_in, symbols_in, with_advice
from kernellab.records.graphs import (
    Bytecode,
    CapturedFrame,
    GraphCapture,
    GraphPass,
    Level,
    LoopBuffer,
    LoweredGraph,
    SavedTensor,
)

# Read a capture from a log of `TORCH_TRACE`: graphs, guards, breaks, bytecode, generated code.


_KINDS = {
    "aot_backward_graph", "aot_forward_graph", "aot_inference_graph", "aot_joint_graph",
    "compilation_metrics", "dynamo_cpp_guards_str", "dynamo_output_graph", "dynamo_start",
    "inductor_output_code", *torch_texts.SIZES,
}  # fmt: skip
_ARTIFACTS = {
    "after_joint_graph",
    "after_pre_grad_graph",
    "before_joint_graph",
    "before_post_grad_graph",
    "before_pre_grad_graph",
    "dynamo_error",
    "dynamo_graph_break_reason",
    "fx_graph_runnable",
    "inductor_post_grad_graph",
    "inductor_provenance_tracking_node_mappings",
    "recompile_reasons",
    "torch_version",
}
_BYTECODE = re.compile(r"(?P<function>.+)_(?P<which>ORIGINAL|MODIFIED)_BYTECODE$")
_GPU = re.compile(r"^# (?P<name>[^\n]{1,100}?) : \d+ *$", re.M)
_TORCH = re.compile(r"^# torch version: (?P<version>\S{1,60})", re.M)
_STAGES = {
    "before_pre_grad_graph": ("after_pre_grad_graph", "pre_grad"),
    "before_joint_graph": ("after_joint_graph", "joint"),
    "before_post_grad_graph": ("inductor_post_grad_graph", "post_grad"),
}
"""Entry with the graph before Inductor's passes -> entry with the graph after them, stage."""

_NOT_LOGGED = Level("prims", "", (), "a log does not contain primitive operations")


def capture_in_log(content: bytes, file: Path) -> GraphCapture:
    """Return the capture that a log describes. Raises ArchiveError: no entry of the log can be
    read.
    """
    entries = torch_texts.entries_in(content, _is_wanted)
    if all(entry.of("artifact").get("name") == "torch_version" for entry in entries.kept):
        raise ArchiveError(
            f"{str(file)!r} is a log of TORCH_TRACE without entries of torch.compile"
            f"{': ' + entries.fault if entries.fault else ''}.",
            advice="Pass the log of the process that compiled; it is the largest log of a run.",
        )
    return _Log(entries).capture(file)


def _is_wanted(kind: str, said: Mapping[str, Any]) -> bool:
    if kind != "artifact":
        return kind in _KINDS
    name = said.get("name")
    return isinstance(name, str) and (name in _ARTIFACTS or _BYTECODE.match(name) is not None)


@dataclass
class _Texts:
    """The texts of one graph: as Dynamo captured it, or as Inductor lowered it."""

    texts: dict[str, str] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    mapping: dict[str, Any] = field(default_factory=dict)

    def add(self, kind: str, entry: torch_texts.Entry) -> None:
        """Keep the latest text of a kind."""
        self.texts[kind] = entry.payload or ""
        self.times[kind] = entry.seconds


@dataclass
class _Frame:
    """The entries of one compilation of one function, such as "0/1"."""

    number: int
    own: _Texts = field(default_factory=_Texts)
    lowered: dict[str, _Texts] = field(default_factory=dict)
    latest: _Texts | None = None

    def graph(self, direction: str) -> _Texts:
        """Return the graph of a direction."""
        self.latest = self.lowered.setdefault(direction, _Texts())
        return self.latest


class _Log:
    """Collects entries in order by the frame that each of them names."""

    def __init__(self, entries: torch_texts.Entries) -> None:
        self._entries = entries
        self._frames: dict[str, _Frame] = {}
        self._codes: dict[tuple[str, str], dict[str, str]] = {}
        self._functions: dict[str, tuple[str, SourcePosition | None]] = {}
        self._errors: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._gpu = self._torch = ""

    def capture(self, file: Path) -> GraphCapture:
        """Return the capture."""
        for entry in self._entries.kept:
            self._read(entry)
        frames = list(self._frames.values())
        lowered = [graph for frame in frames for graph in _lowered_of(frame, self._sizes)]
        events = [(self._with_files(entry), _reasons(entry)) for entry in self._entries.kept]
        symbols = symbols_in(events)
        recompilations = recompilations_in(events, self._functions, symbols)
        targets = [target for graph in lowered if (target := torch_texts.target_in(graph.wrapper))]
        target = targets[0] if targets else ""
        times = [entry.seconds for entry in self._entries.kept]
        return GraphCapture(
            name=next((name for name, _ in self._functions.values()), file.name),
            gpu=self._gpu if target else "CPU",
            target=target,
            torch_version=self._torch or "of unknown version",
            frames=tuple(
                CapturedFrame(
                    frame.number,
                    torch_texts.level_in("fx", frame.own.texts.get("dynamo_output_graph", "")),
                    _joint_of(frame),
                )
                for frame in frames
            ),
            lowered=tuple(lowered),
            breaks=torch_texts.breaks_in(events),
            guards=guards_in(events, recompilations),
            recompilations=recompilations,
            bytecode=tuple(self._bytecode()),
            error="; ".join(self._faults()),
            seconds=max(0.0, times[-1] - times[0]),
            symbols=with_advice(symbols, recompilations),
        )

    def _with_files(self, entry: torch_texts.Entry) -> dict[str, Any]:
        """Return an entry's metadata with the names of files in a stack in place of numbers."""
        metadata = dict(entry.metadata)
        for kind in torch_texts.SIZES:
            stack = entry.of(kind).get("user_stack")
            if isinstance(stack, list):
                named = [
                    {"filename": self._entries.strings.get(file), "line": line}
                    for file, line in map(_numbers_of, stack)
                ]
                metadata[kind] = {**entry.of(kind), "user_stack": named}
        return metadata

    def _faults(self) -> Iterator[str]:
        yield from (f"{frame or 'torch'}: {what}" for frame, what in self._errors.items())
        if self._entries.fault:
            yield f"the log is damaged or cut off: {self._entries.fault}"

    def _read(self, entry: torch_texts.Entry) -> None:
        key = torch_texts.frame_of(entry.metadata)
        text = entry.payload or ""
        artifact = entry.of("artifact").get("name")
        match artifact or next(iter(entry.metadata), ""):
            case "torch_version":
                self._torch = str(json_object(text).get("pytorch_version", ""))[:60]
            case "dynamo_start":
                self._start(key, entry.of("dynamo_start").get("stack"))
            case "dynamo_error":
                self._errors[key] = _last_line(text)
            case "compilation_metrics":
                self._failure(key, entry.of("compilation_metrics"))
            case "fx_graph_runnable":
                gpu, version = surroundings_in(text)
                self._gpu, self._torch = self._gpu or gpu, self._torch or version
            case (
                "dynamo_output_graph" | "aot_joint_graph" | "before_pre_grad_graph"
                | "after_pre_grad_graph" | "before_joint_graph" | "after_joint_graph"
            ) as kind:  # fmt: skip
                self._frame(key).own.add(kind, entry)
            case "aot_forward_graph" | "aot_backward_graph" | "aot_inference_graph" as kind:
                direction = kind.removeprefix("aot_").removesuffix("_graph")
                self._frame(key).graph(direction).add("aten", entry)
            case "before_post_grad_graph" | "inductor_post_grad_graph" as kind:
                frame = self._frame(key)
                frame.graph(_direction(frame, text)).add(kind, entry)
            case "inductor_output_code":
                frame = self._frame(key)
                direction = torch_texts.direction_of(text)
                graph = frame.graph(direction) if direction else frame.latest
                (graph or frame.graph("inference")).add("code", entry)
            case "inductor_provenance_tracking_node_mappings":
                if (graph := self._frame(key).latest) is not None:
                    graph.mapping = json_object(text)
            case "create_symbol":
                self._symbol(entry.of("create_symbol"))
            case str(name) if (match := _BYTECODE.match(name)) is not None:
                codes = self._codes.setdefault((key, match["function"]), {})
                codes[match["which"]] = text

    def _frame(self, key: str) -> _Frame:
        return self._frames.setdefault(key, _Frame(len(self._frames)))

    def _start(self, key: str, stack: Any) -> None:
        match stack:
            case [*_, {"name": str(name), "line": int(line), "filename": int(file)}]:
                path = self._entries.strings.get(file)
                position = SourcePosition(path, line) if path else None
                self._functions.setdefault(key, (name, position))

    def _failure(self, key: str, metrics: Mapping[str, Any]) -> None:
        kind, reason = metrics.get("fail_type"), metrics.get("fail_reason")
        if isinstance(kind, str) and kind:
            self._errors.setdefault(key, f"{kind}: {_last_line(str(reason or ''))}")

    def _symbol(self, said: Mapping[str, Any]) -> None:
        match said:
            case {"symbol": str(name), "val": str(value)} if value.isdecimal() and len(value) < 19:
                self._sizes[name] = int(value)

    def _bytecode(self) -> Iterator[Bytecode]:
        for (frame, function), codes in self._codes.items():
            position = self._functions.get(frame, ("", None))[1]
            original, rewritten = codes.get("ORIGINAL", ""), codes.get("MODIFIED", "")
            yield Bytecode(frame, function, original, rewritten, position)


def _numbers_of(place: Any) -> tuple[int, int]:
    """Return the number of the file and the line of a place in a stack; -1 for none."""
    match place:
        case {"filename": int(file), "line": int(line)}:
            return file, line
    return -1, -1


def surroundings_in(runnable: str) -> tuple[str, str]:
    """Return the GPU and the version of torch that a runnable graph names, "" where it has none."""
    _, _, hardware = runnable.partition("# GPU Hardware Info:")
    gpu, version = _GPU.search(hardware, 0, 1000), _TORCH.search(runnable)
    return gpu["name"].strip() if gpu else "", version["version"] if version else ""


def _direction(frame: _Frame, text: str) -> str:
    """Return the direction of a graph; a backward graph has gradients among its inputs."""
    _, _, body = text.partition("def forward(")
    signature, _, _ = body.partition("):")
    if "tangents_" in signature:
        return "backward"
    if "inference" in frame.lowered:
        return "inference"
    return "forward" if "forward" in frame.lowered else "inference"


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, or {} if the text is not one."""
    try:
        value = json_in(text)
    except BadFile:
        return {}
    return value if isinstance(value, dict) else {}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text[-20_000:].splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Unsupported)\b", line)]
    return (errors or lines or [""])[-1][:1000]


def _reasons(entry: torch_texts.Entry) -> Any:
    """Return an entry's text, or its list of reasons as a live listener receives it."""
    text = entry.payload
    if text is None or not text.startswith("["):
        return text
    try:
        reasons = json_in(text)
    except BadFile:
        return text
    return reasons if isinstance(reasons, list) else text


# Graphs.


def _joint_of(frame: _Frame) -> Level | None:
    text = frame.own.texts.get("aot_joint_graph")
    return torch_texts.level_in("joint", text) if text else None


def _lowered_of(frame: _Frame, sizes: Mapping[str, int]) -> Iterator[LoweredGraph]:
    forward: Level | None = None
    for direction, graph in frame.lowered.items():
        kept = frame.lowered.get("backward") if direction == "forward" else None
        made = lowered_graph(
            direction,
            frame.number,
            graph.texts,
            graph.mapping,
            passes=[*_passes(frame.own), *_passes(graph)],
            saved=() if kept is None else saved_for(kept.texts, sizes),
            forward=forward,
            seconds=max(graph.times.values(), default=0.0) - min(graph.times.values(), default=0.0),
        )
        forward = made.aten if direction == "forward" else forward
        yield made


def lowered_graph(
    direction: str,
    number: int,
    texts: Mapping[str, str],
    mapping: Mapping[str, Any],
    *,
    passes: Iterable[GraphPass] = (),
    saved: tuple[SavedTensor, ...] = (),
    forward: Level | None = None,
    loops: tuple[LoopBuffer, ...] = (),
    groups: tuple[tuple[str, ...], ...] = (),
    seconds: float = 0.0,
) -> LoweredGraph:
    """Return a graph with the levels that its texts show.

    Args:
        direction, number: direction and frame of the graph.
        texts: "aten", "before_post_grad_graph", "inductor_post_grad_graph", "code".
        mapping: Inductor's mapping between nodes and kernels.
        passes: the passes that the log shows.
        saved: the tensors saved for the backward graph.
        forward: the ATen operations of the forward graph, if this is a backward graph.
        loops, groups: buffers before fusion, and operations of each kernel.
        seconds: the time that lowering took.
    """
    code = texts.get("code", "")
    origins = {_bare(name): nodes for name, nodes in _names(mapping.get("cppCodeToPost"))}
    kernels = torch_texts.kernels_in(code, origins)
    aten = _level("aten", texts, "aten", "before_post_grad_graph")
    post_grad = _level("post_grad", texts, "inductor_post_grad_graph")
    return LoweredGraph(
        direction=direction,
        number=number,
        aten=aten,
        prims=_NOT_LOGGED,
        decompositions={},
        passes=tuple(passes),
        post_grad=torch_texts.with_origins(post_grad, dict(_names(mapping.get("postToPre")))),
        saved=saved,
        recomputed=_recomputed(aten, forward) if direction == "backward" else (),
        loops=loops,
        groups=groups,
        fusions=(),
        wrapper=code,
        kernels=kernels,
        launches=torch_texts.launches_in(code, kernels),
        error="" if code else "the log has no generated code for it",
        seconds=seconds,
    )


def _level(name: str, texts: Mapping[str, str], *kinds: str) -> Level:
    text = next((texts[kind] for kind in kinds if texts.get(kind)), "")
    return torch_texts.level_in(name, text) if text else Level(name, "", (), "not in the log")


def _bare(name: str) -> str:
    """Return a kernel's name without the number of its launch, as in "triton_poi_fused_sin_0:1"."""
    return name.partition(":")[0]


def _names(table: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(table, dict):
        for name, values in table.items():
            if isinstance(values, list):
                yield name, tuple(name for name in values if isinstance(name, str))


def _passes(graph: _Texts) -> Iterator[GraphPass]:
    """Yield one pass per stage; a log has the graphs before and after all passes of a stage."""
    texts, times = graph.texts, graph.times
    for first, (last, stage) in _STAGES.items():
        if first in texts and last in texts:
            before, after = texts[first], texts[last]
            both = ("", "") if before == after else (before, after)
            seconds = max(0.0, times[last] - times[first])
            yield GraphPass(f"all {stage} passes", stage, *both, seconds)


def saved_for(backward: Mapping[str, str], sizes: Mapping[str, int]) -> tuple[SavedTensor, ...]:
    """Return the inputs of a backward graph other than the incoming gradients.

    Args:
        backward: the texts of the graph.
        sizes: symbol -> value.
    """
    nodes = _level("aten", backward, "aten", "before_post_grad_graph").nodes
    return tuple(
        SavedTensor(node.name, node.shape, node.dtype, _size(node.shape, node.dtype, sizes))
        for node in nodes
        if node.opcode == "placeholder" and node.shape is not None and node.dtype is not None
        if not node.name.startswith(_COMING_IN)
    )


_COMING_IN = ("tangents_", "bwd_rng_state", "bwd_seed", "bwd_base_offset")
"""Prefixes of the inputs that a backward graph does not receive from the forward graph."""


def _size(shape: tuple[int | str, ...], dtype: str, sizes: Mapping[str, int]) -> int | None:
    """Return the bytes of a tensor, or None if the log has no value for one of its sizes."""
    known = [size if isinstance(size, int) else sizes.get(size) for size in shape]
    bits = re.search(r"\d+", dtype)
    item = int(bits[0]) // 8 if bits else 1
    return (
        math.prod(size for size in known if size is not None) * item if None not in known else None
    )


def _recomputed(aten: Level, forward: Level | None) -> tuple[str, ...]:
    """Return the calls that are in the forward graph as well."""
    names = (
        {node.name for node in forward.nodes if node.opcode.startswith("call_")} if forward else {}
    )
    calls = (node.name for node in aten.nodes if node.opcode.startswith("call_"))
    return tuple(name for name in calls if name in names)


# Read a capture from a folder that torch wrote with `TORCH_COMPILE_DEBUG=1`.
#
# Each graph has its ATen operations, the graph after Inductor's passes, the loop IR before and
# after fusion, and the generated code.


MOST_GRAPHS = 1000
"""Graphs read from one folder."""

MOST_FOUND = 20_000
"""Files and folders that are visited."""

MOST_BYTES = 64 * 1024 * 1024
"""Limit for one file; the limit for all files together is four times as large."""

_TEXTS = {
    "aten": "fx_graph_readable.py",
    "inductor_post_grad_graph": "fx_graph_transformed.py",
    "code": "output_code.py",
    "before fusion": "ir_pre_fusion.txt",
    "after fusion": "ir_post_fusion.txt",
    "runnable": "fx_graph_runnable.py",
    "mapping": "inductor_provenance_tracking_node_mappings.json",
}
_FOLDER = re.compile(
    r"(?P<model>.+?)_{1,3}(?P<number>\d{1,9})_(?P<direction>forward|backward|inference)_\d+\.(?P<order>\d{1,9})"
)
_OPERATION = re.compile(r"^(?P<name>\w+): (?P<kind>\w*Scheduler\w*)\((?P<of>[\w,]*)\)", re.M)
_DEPENDENCY = re.compile(r"(?:MemoryDep|StarDep)\((?:name=)?'(?P<name>\w+)'")
_OUTPUT = re.compile(r"^    (?P<name>\w+): \w+$", re.M)


def graph_folders(folder: Path) -> list[Path]:
    """Return the folders of graphs in compilation order: this folder, or those within it. Raises
    ArchiveError: the folder cannot be read.
    """
    return sorted(_graph_folders(folder), key=_order)


def capture_in_graphs(folder: Path, graphs: list[Path]) -> GraphCapture:
    """Return a capture of the graphs that Inductor compiled.

    Args:
        folder: the folder of one graph, of one run, or a `torch_compile_debug` that has one run.
        graphs: the folders of the graphs within it.

    Raises:
        ArchiveError: the folder cannot be read, or has several runs.
    """
    graph_paths = graphs[:MOST_GRAPHS]
    runs = sorted({_run(path, folder) for path in graph_paths})
    if len(runs) > 1:
        raise ArchiveError(
            f"{str(folder)!r} has graphs of {len(runs)} runs.",
            advice="Pass the path of one of them: "
            f"{', '.join(runs[:5])}{', ...' if len(runs) > 5 else ''}.",
        )
    texts = list(_read(graph_paths))
    backward = {
        _number(path): text for path, text in texts if _direction_of_folder(path) == "backward"
    }
    forward = {
        _number(path): torch_texts.level_in("aten", text.get("aten", ""))
        for path, text in texts
        if _direction_of_folder(path) == "forward"
    }
    lowered = tuple(
        _graph(path, text, backward.get(_number(path), {}), forward.get(_number(path)))
        for path, text in texts
    )
    gpu, version = surroundings_in("\n".join(text.get("runnable", "") for _, text in texts))
    target = next((name for graph in lowered if (name := torch_texts.target_in(graph.wrapper))), "")
    return GraphCapture(
        name=folder.name,
        gpu=gpu if target else "CPU",
        target=target,
        torch_version=version or "of unknown version",
        frames=(),
        lowered=lowered,
        breaks=(),
        guards=(),
        recompilations=(),
        bytecode=(),
        error=""
        if len(graphs) <= MOST_GRAPHS
        else f"only its first {MOST_GRAPHS:,} graphs are read",
        seconds=0.0,
    )


# Files


def _graph_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders of graphs: this folder, or those up to three levels below it."""
    waiting, looked = [(folder, 0)], 0
    while waiting:
        here, depth = waiting.pop()
        try:
            with os.scandir(here) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if depth == 0:
                raise ArchiveError(why_unreadable(here, error)) from error
            continue
        looked += len(inside)
        if looked > MOST_FOUND:
            return
        names = {entry.name for entry in inside}
        if names & {_TEXTS["code"], _TEXTS["aten"], _TEXTS["before fusion"]}:
            yield here
        elif depth < 3:
            folders = [entry for entry in inside if entry.is_dir(follow_symlinks=False)]
            waiting += [(Path(entry.path), depth + 1) for entry in reversed(folders)]


def _read(folders: Iterable[Path]) -> Iterator[tuple[Path, dict[str, str]]]:
    total = 0
    for folder in folders:
        texts = {}
        for kind, name in _TEXTS.items():
            if os.path.lexists(folder / name):
                content = file_bytes(folder / name, ArchiveError, MOST_BYTES, is_named=False)
                total += len(content)
                if total > 4 * MOST_BYTES:
                    raise ArchiveError(
                        f"The texts in {str(folder.parent)!r} have more than "
                        f"{4 * MOST_BYTES:,} bytes.",
                        advice="Pass the path of one of its folders.",
                    )
                texts[kind] = content.decode("utf-8", "replace")
        yield folder, texts


def _run(graph: Path, folder: Path) -> str:
    """Return the name of the run that a graph belongs to, or "" if `folder` is within the run."""
    parts = graph.relative_to(folder).parts
    return next((part for part in parts if part.startswith("run_")), "")


def _order(folder: Path) -> tuple[int, str]:
    match = _FOLDER.fullmatch(folder.name)
    return (int(match["order"]) if match else 0, str(folder))


def _number(folder: Path) -> int:
    match = _FOLDER.fullmatch(folder.name)
    return int(match["number"]) if match else 0


def _direction_of_folder(folder: Path) -> str:
    match = _FOLDER.fullmatch(folder.name)
    return match["direction"] if match else "inference"


# Graphs


def _graph(
    path: Path, texts: Mapping[str, str], backward: Mapping[str, str], forward: Level | None
) -> LoweredGraph:
    """Return the graph of a folder; its backward or forward graph comes from another folder."""
    direction = _direction_of_folder(path)
    return lowered_graph(
        direction,
        _number(path),
        texts,
        json_object(texts.get("mapping", "")),
        saved=saved_for(backward, {}) if direction == "forward" else (),
        forward=forward,
        loops=tuple(_buffers(texts.get("before fusion", ""))),
        groups=tuple(_groups(texts.get("after fusion", ""))),
    )


def _chunks(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the scheduler's nodes: the line that names each node, and the node's whole text."""
    headers = list(_OPERATION.finditer(text))
    ends = [*(header.start() for header in headers[1:]), len(text)]
    for header, end in zip(headers, ends, strict=False):
        yield header, text[header.start() : end].strip()


def _buffers(text: str) -> Iterator[LoopBuffer]:
    for operation, chunk in _chunks(text):
        lines = chunk.splitlines()
        outputs = tuple(dict.fromkeys(_OUTPUT.findall(chunk)))
        yield LoopBuffer(
            name=", ".join(outputs),
            operation=operation["name"],
            kind=operation["of"],
            text=chunk,
            reads=_named(lines, "unmet_dependencies", "met_dependencies"),
            writes=_named(lines, "writes"),
            read_bytes=None,
            write_bytes=None,
            origins=(),
            flops=None,
        )


def _named(lines: list[str], *fields: str) -> tuple[str, ...]:
    """Return the buffers that the fields of a node name; a field ends where the next begins."""
    names: dict[str, None] = {}
    is_inside = False
    for line in lines:
        if line[:1] not in (" ", "]", ""):
            is_inside = line.partition(" = ")[0].partition(".")[2] in fields
        if is_inside:
            names.update(dict.fromkeys(_DEPENDENCY.findall(line)))
    return tuple(sorted(names))


def _groups(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the operations of each node after fusion; a fused node is listed before its members."""
    inside: set[str] = set()
    for operation, _ in _chunks(text):
        name = operation["name"]
        if name in inside:
            continue
        members = tuple(re.findall(r"op\d+", name)) or (name,)
        inside.update(members)
        yield members


# Read a folder that torch wrote: logs of `TORCH_TRACE`, or output of `TORCH_COMPILE_DEBUG`.


_PREFIX, _SUFFIX = "dedicated_log_torch_trace_", ".log"

_SAYS = b'"dynamo_start"'
"""Occurs in the log of each process that compiled something."""


def capture_in_folder(folder: Path) -> GraphCapture | None:
    """Return the capture in a folder's log or graphs, or None if the folder has neither. Raises
    ArchiveError: the folder cannot be read, or has logs of several processes or runs.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ArchiveError(why_unreadable(folder, error)) from error
    logs = [name for name in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    if logs:
        return _capture_of_log(folder, logs)
    graphs = graph_folders(folder)
    return capture_in_graphs(folder, graphs) if graphs else None


def _capture_of_log(folder: Path, names: list[str]) -> GraphCapture:
    """Return the capture of the only process that compiled; each process writes its own log."""
    compiling: list[str] = []
    for name in names[:_MOST_LOGS]:
        content = file_bytes(folder / name, ArchiveError, is_named=False)
        if _SAYS in content:
            compiling.append(name)
            latest = content
    if len(compiling) == 1:
        return capture_in_log(latest, folder / compiling[0])
    if not compiling:
        raise ArchiveError(
            f"None of the {len(names)} logs of TORCH_TRACE in {str(folder)!r} has an entry of "
            "torch.compile.",
        )
    raise ArchiveError(
        f"{str(folder)!r} has logs of {len(compiling)} processes that compiled.",
        advice="Pass the path of one of them: "
        f"{', '.join(compiling[:5])}{', ...' if len(compiling) > 5 else ''}.",
    )


_MOST_LOGS = 100
