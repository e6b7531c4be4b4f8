"""The levels of a report as its view draws them, linked, and large ones in groups."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from string import digits

from kernellab.common.text import counted, index_text, scaled
from kernellab.errors.sources import SourcePosition, label_file
from kernellab.graphs.report import GraphReport, ReportGraph
from kernellab.records.graphs import GraphLaunch, GraphNode, Level, LoopBuffer, with_origins
from kernellab.viz.graph_data import (
    FusionRow,
    GraphChain,
    GraphLevel,
    GroupData,
    LinkedText,
    Written,
    bytecode_lines,
    calls_text,
    graph_text,
    kernels_text,
    loop_text,
)

Path = tuple[tuple[str, str], ...]
"""Groups that an element is in, the outermost first: names, which are unique, and kinds."""

MOST_BESIDE = 150
"""Most elements of a group that are drawn side by side; of more, runs become separate groups."""


def common(paths: Sequence[Path]) -> Path:
    """The groups that all are in."""
    if not paths:
        return ()
    shared = []
    for places in zip(*paths):
        if len(set(places)) > 1:
            break
        shared.append(places[0])
    return tuple(shared)


def with_their_users(
    paths: Sequence[Path | None], inputs: Sequence[Sequence[int]], results: int
) -> list[Path]:
    """Return each element's groups, those of its users if unknown; -1: the graph has no results."""
    users: list[list[int]] = [[] for _ in paths]
    for user, taken in enumerate(inputs):
        for input in taken if user != results else ():
            users[input].append(user)
    groups: list[Path] = [()] * len(paths)
    for number in reversed(range(len(paths))):  # users come after what they use
        own = paths[number]
        groups[number] = common([groups[user] for user in users[number]]) if own is None else own
    return groups


def grouped(paths: Sequence[Path]) -> tuple[tuple[int, ...], tuple[GroupData, ...]]:
    """The group of each element, and all groups."""
    numbers: dict[Path, int] = {}
    made: list[GroupData] = []
    innermost = []
    for path in paths:
        parent = -1
        for depth in range(1, len(path) + 1):
            here = path[:depth]
            if here not in numbers:
                numbers[here] = len(made)
                made.append(GroupData(*path[depth - 1], parent))
            parent = numbers[here]
        innermost.append(parent)
    members: dict[int, list[int]] = {}
    for element, group in enumerate(innermost):
        members.setdefault(group, []).append(element)
    for group, elements in members.items():
        if len(elements) <= MOST_BESIDE:
            continue
        size = max(40, -(-len(elements) // MOST_BESIDE))
        for start in range(0, len(elements), size):
            run = elements[start : start + size]
            words = f"{start + 1} to {start + len(run)} of {len(elements)}"
            for element in run:
                innermost[element] = len(made)
            made.append(GroupData(words, "", group))
    return tuple(innermost), tuple(made)


Indices = tuple[int, ...]

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "b8"}

_MOST_RESULTS = 12
"""Edges into the node of a graph's results that are drawn: a training graph keeps a hundred values,
whose edges would be all that is seen."""

_SHARED = _SOURCE, _BYTECODE, _DYNAMO = 0, 1, 2
"""Numbers of the levels that all graphs share."""


@dataclass(frozen=True)
class _Element:
    """One entry of a level."""

    name: str
    label: str = ""
    fact: str = ""
    bytes: int = 0
    inputs: Indices = ()
    origins: Indices = ()
    line: int = -1
    path: Path = ()
    tab_id: str = ""
    place: int = 0


TabOf = Callable[[int, str], str]
"""From a graph's number in the report and a kernel's name to the tab_id of its IR; "" for none."""


@dataclass
class Levels:
    """The levels and texts of a report, collected one after another."""

    report: GraphReport
    tab_of: TabOf
    levels: list[GraphLevel] = field(default_factory=list)
    texts: list[LinkedText] = field(default_factory=list)
    chains: list[GraphChain] = field(default_factory=list)
    _lines: dict[tuple[str, int], int] = field(default_factory=dict)
    _frames: dict[int, int] = field(default_factory=dict)

    def collect(self) -> Levels:
        """Everything there is in the report."""
        self.levels += [_level(name, "", []) for name in ("source", "bytecode", "breaks")]
        self._add_bytecode()
        self._add_breaks()
        for number, graph in enumerate(self.report.graphs):
            self._add_chain(number, graph)
        if not self.report.graphs:
            self._add_frames()
        self._add_source()
        return self

    # What all graphs share

    def _line(self, position: SourcePosition | None) -> int:
        """The element of a line of the source; -1 for none."""
        if position is None:
            return -1
        return self._lines.setdefault((position.file, position.line), len(self._lines))

    def _add_source(self) -> None:
        sources = self.report.capture.sources
        files = list(dict.fromkeys(file for file, _ in self._lines))
        for file in files:
            if file not in sources:
                continue
            written = Written()
            written.add(sources[file].rstrip("\n"))
            for (name, line), number in self._lines.items():
                if name == file and line <= len(written.lines):
                    written.mark(line, line, number)
            self._text(_SOURCE, written, "python", _file_name(file))
        elements = [_Element(f"{_file_name(file)}:{line}") for file, line in self._lines]
        missing = [_file_name(file) for file in files if file not in sources]
        remark = f"The text of {', '.join(missing)} is not in the report." if missing else ""
        self.levels[_SOURCE] = _level("source", "Source", elements, remark=remark)

    def _add_bytecode(self) -> None:
        written, rewritten = Written(), Written()
        elements: list[_Element] = []
        for code in self.report.capture.bytecode:
            if code.position is None:
                continue
            written.add(f"# {code.function}, frame {code.frame}")
            first, last = written.add(code.original.rstrip("\n"))
            numbers: dict[int, int] = {}
            for at, line in bytecode_lines(code.original):
                if line not in numbers:
                    numbers[line] = len(elements)
                    source = self._line(SourcePosition(code.position.file, line))
                    name = f"{code.function}:{line}"
                    elements.append(_Element(name, origins=(source,), line=source))
                if first + at - 1 <= last:
                    written.mark(first + at - 1, first + at - 1, numbers[line])
            written.add("")
            rewritten.add(f"# {code.function}, frame {code.frame}, as Dynamo rewrote it")
            rewritten.add(code.rewritten.rstrip("\n") + "\n")
        self.levels[_BYTECODE] = _level("bytecode", "Bytecode", elements, above=_SOURCE)
        if written.lines:
            self._text(_BYTECODE, written, "", "")
            self._text(_BYTECODE, rewritten, "", "rewritten")

    def _add_breaks(self) -> None:
        """Graph breaks, guards that failed and sizes that were fixed, each linked to its line, and
        all guards.
        """
        written, elements = Written(), list[_Element]()
        for words, position in _said_of_lines(self.report):
            first, last = written.add(words)
            line = self._line(position)
            if line >= 0:
                written.mark(first, last, len(elements))
                name, _, _ = words.partition("\n")
                elements.append(_Element(name, origins=(line,), line=line))
        words = "Breaks, guards, recompilations"
        self.levels[_DYNAMO] = _level("breaks", words, elements, above=_SOURCE)
        if written.lines:
            self._text(_DYNAMO, written, "", "")

    def _add_frames(self) -> None:
        """Dynamo's capture, if nothing of it was lowered."""
        for frame in self.report.capture.frames:
            number = self._fx(frame.number, frame.fx)
            remark = "Nothing of this graph was lowered."
            chain = (*_SHARED, number)
            self.chains.append(GraphChain(f"graph {frame.number}", remark, chain, ()))

    def _text(self, level: int, written: Written, language: str, words: str) -> None:
        self.texts.append(LinkedText(level, words, written.text(language), tuple(written.spans)))

    def _add(self, level: GraphLevel) -> int:
        self.levels.append(level)
        return len(self.levels) - 1

    # One graph

    def _add_chain(self, number: int, graph: ReportGraph) -> None:
        lowered = graph.lowered
        fx = self._fx(lowered.number, graph.fx)
        aten = self._graph(graph.aten, "ATen", fx, _by_origins(graph.aten.nodes, graph.fx.nodes))
        prims = self._graph(
            graph.prims,
            "Prims",
            aten,
            _by_origins(graph.prims.nodes, graph.aten.nodes),
            modules={node.name: path for node in graph.aten.nodes if (path := _path(node, {}))},
        )
        origins = _by_names(graph.post_grad.nodes, graph.aten.nodes)
        post_grad = self._graph(graph.post_grad, "After passes", aten, origins)
        loops = self._loops(graph, post_grad)
        calls = self._launches(number, graph, loops)
        lines = self._kernel_lines(number, graph, loops)
        self.chains.append(
            GraphChain(
                f"{graph.direction} {lowered.number}",
                graph.error,
                (*_SHARED, fx, aten, prims, post_grad, loops, calls, lines),
                _fusions(graph),
            )
        )

    def _fx(self, frame: int, level: Level) -> int:
        """The level of a frame's graph, which its forward and its backward graph share."""
        if frame not in self._frames:
            nothing: list[Indices] = [()] * len(level.nodes)
            self._frames[frame] = self._graph(level, "FX", _SOURCE, nothing)
        return self._frames[frame]

    def _graph(
        self,
        level: Level,
        words: str,
        above: int,
        origins: Sequence[Indices],
        modules: dict[str, Path] | None = None,
    ) -> int:
        numbers = {node.name: number for number, node in enumerate(level.nodes)}
        inputs = [_known(node.inputs, numbers) for node in level.nodes]
        results = next((n for n, node in enumerate(level.nodes) if node.opcode == "output"), -1)
        known = [_path(node, modules or {}) for node in level.nodes]
        paths = with_their_users(known, inputs, results)
        facts = [_shape(node) for node in level.nodes]
        if results >= 0 and len(inputs[results]) > _MOST_RESULTS:
            facts[results] = f"{len(inputs[results])} results"
            inputs[results] = ()
        elements = [
            _Element(
                name=node.name,
                label=_called(node),
                fact=fact,
                bytes=_size(node),
                inputs=taken,
                origins=made_of,
                line=self._line(node.position),
                path=path,
            )
            for node, fact, taken, made_of, path in zip(
                level.nodes, facts, inputs, origins, paths, strict=True
            )
        ]
        if above == _SOURCE:
            elements = [
                replace(element, origins=(element.line,) if element.line >= 0 else ())
                for element in elements
            ]
        bare = sum(
            element.line < 0 and not element.origins and node.opcode.startswith("call_")
            for element, node in zip(elements, level.nodes)
        )
        remark = level.error
        if bare:
            remark = f"torch kept no origin for {counted(bare, 'operation')}."
        made = self._add(
            _level(level.name, words, elements, above=above, is_drawn=True, remark=remark)
        )
        if level.text:
            self._text(made, graph_text(level.text, level.nodes), "python", "")
        return made

    def _loops(self, graph: ReportGraph, above: int) -> int:
        loops, nodes = graph.lowered.loops, graph.post_grad.nodes
        numbers = {node.name: number for number, node in enumerate(nodes)}
        kernels: dict[str, Path] = {}
        for place, (launch, path) in enumerate(zip(graph.lowered.launches, _launch_paths(graph))):
            own = ((f"{launch.name} ({place})", "fused"),) if len(launch.operations) > 1 else ()
            kernels.update(dict.fromkeys(launch.operations, (*path, *own)))
        inputs = _between(loops)
        elements = [
            _Element(
                name=f"{loop.operation}: {loop.name}",
                label=loop.kind,
                fact=_moved(loop),
                bytes=loop.write_bytes or 0,
                inputs=taken,
                origins=_known(loop.origins, numbers),
                path=kernels.get(loop.operation, ()),
            )
            for loop, taken in zip(loops, inputs, strict=True)
        ]
        made = self._add(_level("loops", "Loop IR", elements, above=above, is_drawn=True))
        if loops:
            self._text(made, loop_text(loops), "python", "")
        return made

    def _launches(self, number: int, graph: ReportGraph, above: int) -> int:
        launches, loops = graph.lowered.launches, graph.lowered.loops
        places = {loop.operation: place for place, loop in enumerate(loops)}
        owners = {name: place for place, loop in enumerate(launches) for name in loop.operations}
        taken = _between(loops)
        is_small = len(launches) <= MOST_BESIDE
        paths = [()] * len(launches) if is_small else _launch_paths(graph)
        kinds = {
            kernel.name: "Triton" if kernel.code.is_triton else "C++" for kernel in graph.kernels
        }
        elements = []
        for place, launch in enumerate(launches):
            made_of = _known(launch.operations, places)
            writers = (loops[there].operation for here in made_of for there in taken[here])
            inputs = dict.fromkeys(owners[name] for name in writers if name in owners)
            tab_id = self.tab_of(number, launch.name) if launch.is_generated else ""
            elements.append(
                _Element(
                    name=launch.name,
                    label=kinds.get(launch.name, "torch"),
                    fact=_costs(launch),
                    bytes=sum(loops[here].write_bytes or 0 for here in made_of),
                    inputs=tuple(other for other in inputs if other != place),
                    origins=made_of,
                    path=paths[place],
                    tab_id=tab_id,
                )
            )
        made = self._add(_level("launches", "Kernels", elements, above=above, is_drawn=True))
        if graph.wrapper:
            self._text(made, calls_text(graph.wrapper, launches), "python", "calls")
        return made

    def _kernel_lines(self, number: int, graph: ReportGraph, above: int) -> int:
        places = {loop.operation: place for place, loop in enumerate(graph.lowered.loops)}
        written, kernel_lines = kernels_text([kernel.code for kernel in graph.kernels])
        elements = []
        for place, line in enumerate(kernel_lines):
            written.mark(line.line, line.line, place)
            elements.append(
                _Element(
                    line.code,
                    origins=_known(line.operations, places),
                    tab_id=self.tab_of(number, line.kernel),
                    place=line.place,
                )
            )
        remark = (
            ""
            if not graph.kernels
            else (
                "A line of a kernel is known by the buffer that it computes: of several nodes in "
                "one buffer all are lit."
            )
        )
        made = self._add(_level("lines", "Kernel lines", elements, above=above, remark=remark))
        if kernel_lines or graph.kernels:
            self._text(made, written, "python", "")
        return made


def _level(
    name: str,
    words: str,
    elements: Sequence[_Element],
    *,
    above: int = -1,
    is_drawn: bool = False,
    remark: str = "",
) -> GraphLevel:
    groups: tuple[Indices, tuple[GroupData, ...]] = ((-1,) * len(elements), ())
    if is_drawn:
        groups = grouped([element.path for element in elements])
    return GraphLevel(
        name=name,
        words=words,
        remark=remark,
        above=above,
        is_drawn=is_drawn,
        names=tuple(element.name for element in elements),
        labels=tuple(element.label for element in elements) if is_drawn else (),
        facts=tuple(element.fact for element in elements) if is_drawn else (),
        bytes=tuple(element.bytes for element in elements) if is_drawn else (),
        inputs=tuple(element.inputs for element in elements) if is_drawn else (),
        origins=tuple(element.origins for element in elements),
        lines=tuple(element.line for element in elements),
        groups=groups[0],
        all_groups=groups[1],
        tab_ids=tuple(element.tab_id for element in elements)
        if name in ("launches", "lines")
        else (),
        places=tuple(element.place for element in elements) if name == "lines" else (),
    )


def _said_of_lines(report: GraphReport) -> Iterator[tuple[str, SourcePosition | None]]:
    """Yield what Dynamo said, and the line of the model that it said it of."""
    for number, graph_break in enumerate(report.breaks):
        more = (*graph_break.hints[:1], graph_break.rest)
        words = f"Graph break {number}, {graph_break.position}: {graph_break.reason}"
        yield "\n    ".join([words, *filter(None, more)]), graph_break.position
    for recompilation in report.recompilations:
        for failure in recompilation.failures:
            words = f"{recompilation.function} {recompilation.frame} was compiled again, because "
            more = (failure.values, failure.advice)
            yield (
                "\n    ".join([f"{words}{failure.condition}", *filter(None, more)]),
                failure.position,
            )
    for symbol in report.symbols:
        yield str(symbol), symbol.position
        for guard in symbol.guards:
            yield f"    {symbol.name}: {guard}", guard.position
    for condition in report.guards:
        yield f"Guard of {condition.frame}: {condition.condition}", None


def _file_name(file: str) -> str:
    """A file as readers know it: a notebook's cell by its number."""
    return PurePath(label_file(file) or file).name


# Nodes


def _known(names: Iterable[str], numbers: dict[str, int]) -> Indices:
    return tuple(dict.fromkeys(numbers[name] for name in names if name in numbers))


def _by_origins(nodes: Sequence[GraphNode], above: Sequence[GraphNode]) -> list[Indices]:
    """Of each node the nodes of the level above that torch names; the nearest alone."""
    numbers = {node.name: number for number, node in enumerate(above)}
    return [_known(node.origins, numbers)[:1] for node in nodes]


def _by_names(nodes: Sequence[GraphNode], above: Sequence[GraphNode]) -> list[Indices]:
    """Inductor's passes leave a node its name. A node that they made has that of the FX node that
    it is for: it is made of all that were for the same.
    """
    numbers = {node.name: number for number, node in enumerate(above)}
    families: dict[str, list[int]] = {}
    for number, node in enumerate(above):
        for origin in node.origins:
            families.setdefault(origin, []).append(number)
    return [
        (numbers[node.name],)
        if node.name in numbers
        else next((tuple(families[origin]) for origin in node.origins if origin in families), ())
        for node in nodes
    ]


def _path(node: GraphNode, of_origins: dict[str, Path]) -> Path | None:
    """Return the modules of a node; None if it is in none and belongs to its users."""
    if node.modules:
        return tuple((module.path, module.kind) for module in node.modules)
    known = next((of_origins[name] for name in node.origins if name in of_origins), None)
    if known is not None:
        return known
    return None if node.opcode in ("placeholder", "get_attr") else ()


def _called(node: GraphNode) -> str:
    if not node.opcode.startswith("call_"):
        return node.opcode
    return node.target.removeprefix("aten.").removesuffix(".default")


def _shape(node: GraphNode) -> str:
    """Return the dtype and shape of a node, of an input after what the user writes for it."""
    if node.shape is None or node.dtype is None:
        return ""
    is_named = node.opcode == "placeholder" and node.target.lower() != node.name.lower()
    own = f"{node.target}  " if is_named else ""
    name = node.dtype.rstrip(digits) if "8_" not in node.dtype else node.dtype
    kind = f"{_SHORT.get(name, name)}{node.dtype[len(name) :]}"
    return f"{own}{kind}{index_text(node.shape) or '[]'}{_strides(node)}"


def _strides(node: GraphNode) -> str:
    """Return the strides of a node; "" of a dense row-major tensor, or where torch has none."""
    shape = node.shape or ()
    dense = _dense(shape) if _size(node) else shape
    pairs = zip(shape, node.strides or (), dense)
    if all(size == 1 or stride == expected for size, stride, expected in pairs):
        return ""
    return f" strides {index_text(node.strides or ())}"


def _dense(shape: Sequence[int | str]) -> list[int]:
    return [math.prod(map(int, shape[place:])) for place in range(1, len(shape) + 1)]


def _size(node: GraphNode) -> int:
    """Bytes of a node's value; 0 if it is not a tensor, or has a symbol for a size."""
    if node.shape is None or node.dtype is None:
        return 0
    bits = re.search(r"\d+", node.dtype)
    sizes = [size for size in node.shape if isinstance(size, int)]
    if len(sizes) < len(node.shape):
        return 0
    return math.prod(sizes) * (int(bits[0]) // 8 if bits else 1)


# Buffers and launches


def _between(loops: Sequence[LoopBuffer]) -> list[Indices]:
    writers: dict[str, int] = {}
    read = []
    for number, loop in enumerate(loops):
        taken = (writers[name] for name in loop.reads if name in writers)
        read.append(tuple(other for other in dict.fromkeys(taken) if other != number))
        writers.update(dict.fromkeys((*loop.name.split(", "), *loop.writes), number))
    return read


def _launch_paths(graph: ReportGraph) -> list[Path]:
    """Return the modules that all nodes of a launch are in."""
    paths = {node.name: _path(node, {}) or () for node in graph.post_grad.nodes}
    origins = {loop.operation: loop.origins for loop in graph.lowered.loops}
    return [
        common(
            [
                paths[name]
                for operation in launch.operations
                for name in origins.get(operation, ())
                if paths.get(name)
            ]
        )
        for launch in graph.lowered.launches
    ]


def _moved(loop: LoopBuffer) -> str:
    if loop.read_bytes is None or loop.write_bytes is None:
        return ""
    return scaled(loop.read_bytes + loop.write_bytes, "B")


def _costs(launch: GraphLaunch) -> str:
    counts = ((launch.moved_bytes, "B"), (launch.flops, "FLOP"))
    return ", ".join(scaled(number, unit) for number, unit in counts if number is not None)


def _fusions(graph: ReportGraph) -> tuple[FusionRow, ...]:
    places = {loop.operation: place for place, loop in enumerate(graph.lowered.loops)}
    return tuple(
        FusionRow(
            fusion.first,
            fusion.second,
            ", ".join(
                with_origins(operations, graph.lowered.loops)
                for operations in (fusion.first, fusion.second)
            ),
            _known((*fusion.first.split("_"), *fusion.second.split("_")), places),
            fusion.fused,
            fusion.reason,
            fusion.saved_bytes,
        )
        for fusion in sorted(graph.lowered.fusions, key=lambda fusion: -fusion.saved_bytes)
    )
