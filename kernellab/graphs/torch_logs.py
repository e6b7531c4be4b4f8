"""Logs of torch.compile from elsewhere, read as captures: the structured trace that `TORCH_TRACE`
writes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
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
                self._torch = str(_json_object(text).get("pytorch_version", ""))[:60]
            case "dynamo_start":
                self._start(key, entry.of("dynamo_start").get("stack"))
            case "dynamo_error":
                self._errors[key] = _last_line(text)
            case "compilation_metrics":
                self._failure(key, entry.of("compilation_metrics"))
            case "fx_graph_runnable":
                gpu, version = _surroundings(text)
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
                    graph.mapping = _json_object(text)
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


def _surroundings(runnable: str) -> tuple[str, str]:
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


def _json_object(text: str) -> dict[str, Any]:
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
    """Yield the graphs of a frame with the levels that their texts show."""
    forward: Level | None = None
    for direction, graph in frame.lowered.items():
        code = graph.texts.get("code", "")
        origins = {_bare(name): nodes for name, nodes in _names(graph.mapping.get("cppCodeToPost"))}
        kernels = torch_texts.kernels_in(code, origins)
        aten = _level("aten", graph.texts, "aten", "before_post_grad_graph")
        post_grad = _level("post_grad", graph.texts, "inductor_post_grad_graph")
        before = dict(_names(graph.mapping.get("postToPre")))
        kept = frame.lowered.get("backward") if direction == "forward" else None
        times = graph.times.values()
        yield LoweredGraph(
            direction=direction,
            number=frame.number,
            aten=aten,
            prims=_NOT_LOGGED,
            decompositions={},
            passes=(*_passes(frame.own), *_passes(graph)),
            post_grad=torch_texts.with_origins(post_grad, before),
            saved=() if kept is None else _saved_for(kept.texts, sizes),
            recomputed=_recomputed(aten, forward) if direction == "backward" else (),
            loops=(),
            groups=(),
            fusions=(),
            wrapper=code,
            kernels=kernels,
            launches=torch_texts.launches_in(code, kernels),
            error="" if code else "the log has no generated code for it",
            seconds=max(times, default=0.0) - min(times, default=0.0),
        )
        forward = aten if direction == "forward" else forward


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


def _saved_for(backward: Mapping[str, str], sizes: Mapping[str, int]) -> tuple[SavedTensor, ...]:
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


# Read a folder of logs of `TORCH_TRACE`.


_PREFIX, _SUFFIX = "dedicated_log_torch_trace_", ".log"

_SAYS = b'"dynamo_start"'
"""Occurs in the log of each process that compiled something."""


def capture_in_folder(folder: Path) -> GraphCapture | None:
    """Return the capture in a folder's log, or None if the folder has no log. Raises ArchiveError:
    the folder cannot be read, or has logs of several processes.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ArchiveError(why_unreadable(folder, error)) from error
    logs = [name for name in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    return _capture_of_log(folder, logs) if logs else None


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
