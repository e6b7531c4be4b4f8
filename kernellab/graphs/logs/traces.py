"""A log of `TORCH_TRACE` as what was captured: graphs, guards, breaks, bytecode, generated code."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.common.saved_files import BadFile, json_in
from kernellab.errors import ArchiveError, SourcePosition
from kernellab.graphs.logs.entries import Entries, Entry, entries_in
from kernellab.graphs.logs.output_code import direction_of, kernels_in, launches_in, target_in
from kernellab.graphs.logs.printed_graphs import level_in, with_origins
from kernellab.graphs.trace_events import breaks_in, frame_of, guards_in, recompilations_in
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

_KINDS = {
    "aot_backward_graph",
    "aot_forward_graph",
    "aot_inference_graph",
    "aot_joint_graph",
    "compilation_metrics",
    "create_symbol",
    "dynamo_cpp_guards_str",
    "dynamo_output_graph",
    "dynamo_start",
    "inductor_output_code",
}
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
"""Where a log has the graph before Inductor's passes -> where it has it after them."""

_NOT_LOGGED = Level("prims", "", (), "a log has no primitive operations")


def capture_in_log(content: bytes, file: Path) -> GraphCapture:
    """What the log says was captured.

    Raises:
        ArchiveError: no entry of it can be read.
    """
    entries = entries_in(content, _is_wanted)
    if all(one.of("artifact").get("name") == "torch_version" for one in entries.kept):
        raise ArchiveError(
            f"{str(file)!r} is a log of TORCH_TRACE in which torch.compile says nothing"
            f"{': ' + entries.fault if entries.fault else ''}.",
            advice="Of a run's logs take the one of the process that compiled: the largest.",
        )
    return _Log(entries).capture(file)


def _is_wanted(kind: str, said: Mapping[str, Any]) -> bool:
    if kind != "artifact":
        return kind in _KINDS
    name = said.get("name")
    return isinstance(name, str) and (name in _ARTIFACTS or _BYTECODE.match(name) is not None)


@dataclass
class _Lowered:
    """What the log says of one graph on its way through Inductor."""

    texts: dict[str, str] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    mapping: dict[str, Any] = field(default_factory=dict)

    def add(self, kind: str, entry: Entry) -> None:
        """Its text of a kind: the last, where there are several."""
        self.texts[kind] = entry.payload or ""
        self.times[kind] = entry.seconds


@dataclass
class _Frame:
    """What the log says of one compilation of one function: "0/1"."""

    number: int
    fx: str | None = None
    texts: dict[str, str] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    lowered: dict[str, _Lowered] = field(default_factory=dict)
    latest: _Lowered | None = None

    def graph(self, direction: str) -> _Lowered:
        """Its graph of a direction."""
        found = self.latest = self.lowered.setdefault(direction, _Lowered())
        return found


class _Log:
    """Reads entries in order; what they are about is told by the frame that each names."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._frames: dict[str, _Frame] = {}
        self._codes: dict[tuple[str, str], dict[str, str]] = {}
        self._functions: dict[str, tuple[str, SourcePosition | None]] = {}
        self._errors: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._gpu = self._torch = ""

    def capture(self, file: Path) -> GraphCapture:
        """All of it."""
        for entry in self._entries.kept:
            self._read(entry)
        frames = list(self._frames.values())
        lowered = [one for frame in frames for one in _lowered_of(frame, self._sizes)]
        events = [(one.metadata, _reasons(one)) for one in self._entries.kept]
        names = {frame: name for frame, (name, _) in self._functions.items()}
        recompilations = recompilations_in(events, names)
        targets = [target for one in lowered if (target := target_in(one.wrapper))]
        target = targets[0] if targets else ""
        times = [one.seconds for one in self._entries.kept]
        return GraphCapture(
            name=next(iter(names.values()), file.name),
            gpu=self._gpu if target else "CPU",
            target=target,
            torch_version=self._torch or "of unknown version",
            frames=tuple(
                CapturedFrame(one.number, level_in("fx", one.fx or ""), _joint_of(one))
                for one in frames
            ),
            lowered=tuple(lowered),
            breaks=breaks_in(events),
            guards=guards_in(events, recompilations),
            recompilations=recompilations,
            bytecode=tuple(self._bytecode()),
            error="; ".join(self._faults()),
            seconds=max(0.0, times[-1] - times[0]),
        )

    def _faults(self) -> Iterator[str]:
        yield from (f"{frame or 'torch'}: {what}" for frame, what in self._errors.items())
        if self._entries.fault:
            yield f"the log is damaged or cut off: {self._entries.fault}"

    def _read(self, entry: Entry) -> None:
        key = frame_of(entry.metadata)
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
                self._surroundings(text)
            case "dynamo_output_graph":
                self._frame(key).fx = text
            case "aot_joint_graph" | "before_pre_grad_graph" | "after_pre_grad_graph" as kind:
                frame = self._frame(key)
                frame.texts[kind], frame.times[kind] = text, entry.seconds
            case "before_joint_graph" | "after_joint_graph" as kind:
                frame = self._frame(key)
                frame.texts[kind], frame.times[kind] = text, entry.seconds
            case "aot_forward_graph" | "aot_backward_graph" | "aot_inference_graph" as kind:
                direction = kind.removeprefix("aot_").removesuffix("_graph")
                self._frame(key).graph(direction).add("aten", entry)
            case "before_post_grad_graph" | "inductor_post_grad_graph" as kind:
                frame = self._frame(key)
                frame.graph(_direction(frame, text)).add(kind, entry)
            case "inductor_output_code":
                frame = self._frame(key)
                direction = direction_of(text)
                graph = frame.graph(direction) if direction else frame.latest
                (graph or frame.graph("inference")).add("code", entry)
            case "inductor_provenance_tracking_node_mappings":
                if (graph := self._frame(key).latest) is not None:
                    graph.mapping = json_object(text)
            case "create_symbol":
                self._symbol(entry.of("create_symbol"))
            case str(name) if (found := _BYTECODE.match(name)) is not None:
                codes = self._codes.setdefault((key, found["function"]), {})
                codes[found["which"]] = text

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
        """A size that is a symbol, and what it was."""
        match said:
            case {"symbol": str(name), "val": str(value)} if value.isdecimal() and len(value) < 19:
                self._sizes[name] = int(value)

    def _surroundings(self, runnable: str) -> None:
        """The GPU and the torch that a graph was compiled with."""
        gpu, version = surroundings_in(runnable)
        self._gpu, self._torch = self._gpu or gpu, self._torch or version

    def _bytecode(self) -> Iterator[Bytecode]:
        for (frame, function), codes in self._codes.items():
            position = self._functions.get(frame, ("", None))[1]
            original, rewritten = codes.get("ORIGINAL", ""), codes.get("MODIFIED", "")
            yield Bytecode(frame, function, original, rewritten, position)


def surroundings_in(runnable: str) -> tuple[str, str]:
    """The GPU and the torch of the machine that wrote a graph as a program; "" of what it does not
    say.
    """
    _, _, hardware = runnable.partition("# GPU Hardware Info:")
    gpu, version = _GPU.search(hardware, 0, 1000), _TORCH.search(runnable)
    return gpu["name"].strip() if gpu else "", version["version"] if version else ""


def _direction(frame: _Frame, text: str) -> str:
    """Of a graph within Inductor, which has the gradient's inputs where it is a backward one."""
    _, _, body = text.partition("def forward(")
    signature, _, _ = body.partition("):")
    if "tangents_" in signature:
        return "backward"
    if "inference" in frame.lowered:
        return "inference"
    return "forward" if "forward" in frame.lowered else "inference"


def json_object(text: str) -> dict[str, Any]:
    """A JSON object; {} where a text is none."""
    try:
        found = json_in(text)
    except BadFile:
        return {}
    return found if isinstance(found, dict) else {}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text[-20_000:].splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Unsupported)\b", line)]
    return (errors or lines or [""])[-1][:1000]


def _reasons(entry: Entry) -> Any:
    """An entry's text, as a process that hears it gets it: reasons may be a list."""
    text = entry.payload
    if text is None or not text.startswith("["):
        return text
    try:
        found = json_in(text)
    except BadFile:
        return text
    return found if isinstance(found, list) else text


# --------------------------------------------------------------------------------------------------
# Graphs
# --------------------------------------------------------------------------------------------------


def _joint_of(frame: _Frame) -> Level | None:
    text = frame.texts.get("aot_joint_graph")
    return level_in("joint", text) if text else None


def _lowered_of(frame: _Frame, sizes: Mapping[str, int]) -> Iterator[LoweredGraph]:
    forward: Level | None = None
    for direction, graph in frame.lowered.items():
        made = lowered_graph(
            direction,
            frame.number,
            graph.texts,
            graph.mapping,
            passes=[*_passes(frame.texts, frame.times), *_passes(graph.texts, graph.times)],
            saved=_saved(frame, sizes) if direction == "forward" else (),
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
    """A graph as far as its texts reach.

    Args:
        direction, number: of the graph.
        texts: "aten", "before_post_grad_graph", "inductor_post_grad_graph", "code".
        mapping: Inductor's own, of nodes and kernels.
        passes: those that the log shows.
        saved: what the backward graph is given.
        forward: the ATen operations of the forward graph, where this is a backward one.
        loops, groups: buffers before fusion, and operations of each kernel.
        seconds: what it took.
    """
    code = texts.get("code", "")
    origins = {_bare(name): nodes for name, nodes in _names(mapping.get("cppCodeToPost"))}
    kernels = kernels_in(code, origins)
    aten = _level("aten", texts, "aten", "before_post_grad_graph")
    post_grad = _level("post_grad", texts, "inductor_post_grad_graph")
    return LoweredGraph(
        direction=direction,
        number=number,
        aten=aten,
        prims=_NOT_LOGGED,
        decompositions={},
        passes=tuple(passes),
        post_grad=with_origins(post_grad, dict(_names(mapping.get("postToPre")))),
        saved=saved,
        recomputed=_recomputed(aten, forward) if direction == "backward" else (),
        loops=loops,
        groups=groups,
        fusions=(),
        wrapper=code,
        kernels=kernels,
        launches=launches_in(code, kernels),
        error="" if code else "the log has no generated code of it",
        seconds=seconds,
    )


def _level(name: str, texts: Mapping[str, str], *kinds: str) -> Level:
    text = next((texts[kind] for kind in kinds if texts.get(kind)), "")
    return level_in(name, text) if text else Level(name, "", (), "not in the log")


def _bare(name: str) -> str:
    """A kernel's name without the number of its launch: "triton_poi_fused_sin_0:1"."""
    return name.partition(":")[0]


def _names(table: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The lists of names of a JSON object."""
    if isinstance(table, dict):
        for name, values in table.items():
            if isinstance(values, list):
                yield name, tuple(one for one in values if isinstance(one, str))


def _passes(texts: Mapping[str, str], times: Mapping[str, float]) -> Iterator[GraphPass]:
    """Inductor's passes of each stage, of which a log has the graphs before all and after all."""
    for first, (last, stage) in _STAGES.items():
        if first in texts and last in texts:
            before, after = texts[first], texts[last]
            both = ("", "") if before == after else (before, after)
            seconds = max(0.0, times[last] - times[first])
            yield GraphPass(f"all {stage} passes", stage, *both, seconds)


def _saved(frame: _Frame, sizes: Mapping[str, int]) -> tuple[SavedTensor, ...]:
    backward = frame.lowered.get("backward")
    return saved_for(backward.texts, sizes) if backward is not None else ()


def saved_for(backward: Mapping[str, str], sizes: Mapping[str, int]) -> tuple[SavedTensor, ...]:
    """What a backward graph is given beside the gradients that come in.

    Args:
        backward: the texts of it.
        sizes: what symbols stand for.
    """
    nodes = _level("aten", backward, "aten", "before_post_grad_graph").nodes
    return tuple(
        SavedTensor(one.name, one.shape, one.dtype, _size(one.shape, one.dtype, sizes))
        for one in nodes
        if one.opcode == "placeholder" and one.shape is not None and one.dtype is not None
        if not one.name.startswith(_COMING_IN)
    )


_COMING_IN = ("tangents_", "bwd_rng_state", "bwd_seed", "bwd_base_offset")
"""How inputs of a backward graph begin that the forward graph does not give."""


def _size(shape: tuple[int | str, ...], dtype: str, sizes: Mapping[str, int]) -> int | None:
    """Bytes of a tensor; None where a size is an expression that the log has no value of."""
    known = [one if isinstance(one, int) else sizes.get(one) for one in shape]
    bits = re.search(r"\d+", dtype)
    item = int(bits[0]) // 8 if bits else 1
    return math.prod(one for one in known if one is not None) * item if None not in known else None


def _recomputed(aten: Level, forward: Level | None) -> tuple[str, ...]:
    """Calls that stand in the forward graph as well."""
    names = {one.name for one in forward.nodes if one.opcode.startswith("call_")} if forward else {}
    calls = (one.name for one in aten.nodes if one.opcode.startswith("call_"))
    return tuple(name for name in calls if name in names)
