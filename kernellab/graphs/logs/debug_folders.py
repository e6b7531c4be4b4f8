"""Read a capture from a folder that torch wrote with `TORCH_COMPILE_DEBUG=1`.

Each graph has its ATen operations, the graph after Inductor's passes, the loop IR before and after
fusion, and the generated code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kernellab.common.saved_files import file_bytes
from kernellab.common.saved_json import why_unreadable
from kernellab.errors import ArchiveError
from kernellab.graphs.logs.output_code import target_in
from kernellab.graphs.logs.printed_graphs import level_in
from kernellab.graphs.logs.traces import json_object, lowered_graph, saved_for, surroundings_in
from kernellab.records.graphs import GraphCapture, Level, LoopBuffer, LoweredGraph

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
    """Return the folders of graphs in compilation order: this folder, or those within it.

    Raises:
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
    backward = {_number(path): text for path, text in texts if _direction(path) == "backward"}
    forward = {
        _number(path): level_in("aten", text.get("aten", ""))
        for path, text in texts
        if _direction(path) == "forward"
    }
    lowered = tuple(
        _graph(path, text, backward.get(_number(path), {}), forward.get(_number(path)))
        for path, text in texts
    )
    gpu, version = surroundings_in("\n".join(text.get("runnable", "") for _, text in texts))
    target = next((name for graph in lowered if (name := target_in(graph.wrapper))), "")
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
    """Yield each folder with its texts."""
    total = 0
    for folder in folders:
        texts = {}
        for kind, name in _TEXTS.items():
            if os.path.lexists(folder / name):
                content = file_bytes(folder / name, ArchiveError, MOST_BYTES)
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


def _direction(folder: Path) -> str:
    match = _FOLDER.fullmatch(folder.name)
    return match["direction"] if match else "inference"


# Graphs


def _graph(
    path: Path, texts: Mapping[str, str], backward: Mapping[str, str], forward: Level | None
) -> LoweredGraph:
    """Return the graph of a folder; its backward or forward graph comes from another folder."""
    direction = _direction(path)
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
