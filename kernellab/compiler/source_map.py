"""Which line of one stage became which lines of another, from the compiler's own line information.

What names what:

- TTIR and TTGIR carry `loc(...)`: the kernel's lines, with the chain of calls of what was inlined.
- After TTGIR, locations name lines of the TTGIR text if the compilation asked for it
  (`triton_api.locations_name_ttgir`), and lines of the kernel otherwise: in LLVM IR as
  `!DILocation`, in PTX and AMD assembly as `.loc`, in a cubin as DWARF lines.
- A cubin names the PTX line of each instruction besides (section `.nv_debug_line_sass`).
- From TTIR to TTGIR no location leads, since both name the kernel: the TTGIR stage is run once more
  on the TTIR text with locations that name its lines, and the result is taken if it is the same
  TTGIR, line by line.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kernellab import triton_api
from kernellab.common.text import string_of_assembly, string_of_ir
from kernellab.compiler.machine_code import instructions
from kernellab.compiler.machine_code.cubin import ptx_lines
from kernellab.errors import SourcePosition
from kernellab.records import Lines, SourceMap, Stages, Target
from kernellab.triton_api.stages import Query, query_here

Frame = tuple[str, int, int]
"""File, line, column (from 1; 0 if unknown)."""
Frames = tuple[Frame, ...]
"""One call chain, innermost frame first."""

_AFTER_TTGIR = ("llir", "ptx", "amdgcn", "sass")


def read_source_map(
    stages: Stages,
    kernel: SourcePosition,
    target: Target,
    options: Mapping[str, Any],
    query: Query = query_here,
    *,
    with_ttir: bool = True,
) -> SourceMap:
    """The map of one compilation.

    Args:
        stages: its stages; SASS is disassembled for this.
        kernel: the kernel's `def` line.
        target, options: what it was compiled for and with; the TTGIR stage is run again with them.
        query: queries MLIR; `query_worker` for texts that may have been edited.
        with_ttir: follow lines of TTIR too, for which the TTGIR stage is run again.
    """
    located = {
        name: module_frames(stages[name].text) for name in ("ttir", "ttgir") if name in stages
    }
    stages.made()  # From now on, stages that cannot be made are left out.
    links: dict[tuple[str, str], tuple[Lines, ...]] = {}
    if with_ttir and "ttir" in stages and "ttgir" in stages:
        texts = stages["ttir"].text, stages["ttgir"].text
        made_from = _ttir_lines_of_ttgir(*texts, target, options, query)
        if made_from is not None:
            links["ttir", "ttgir"] = made_from
    for name in _AFTER_TTGIR:
        if name in stages:
            frames = _frames_after_ttgir(name, stages)
            if _name_ttgir(frames):
                links["ttgir", name] = _of_each_line(frames, _ttgir_lines)
            else:
                located[name] = frames
    if "ptx" in stages and "sass" in stages:
        links["ptx", "sass"] = _ptx_lines_of_sass(stages)
    return _assemble(kernel.file, located, links)


def with_passes(source_map: SourceMap, modules: Mapping[str, str]) -> SourceMap:
    """The map, with modules after passes as further stages.

    Args:
        modules: the name that each is to have -> its text, with its locations.
    """
    files = {name: number for number, name in enumerate(source_map.files)}
    numbers: dict[tuple[tuple[int, int, int], ...], int] = {
        chain: number for number, chain in enumerate(source_map.chains)
    }
    origins, links = dict(source_map.origins), dict(source_map.links)
    for module, text in modules.items():
        frames = module_frames(text)
        if _name_ttgir(frames):
            links["ttgir", module] = _of_each_line(frames, _ttgir_lines)
            continue
        origins[module] = _of_each_line(
            frames,
            lambda chains: tuple(
                numbers.setdefault(_numbered(chain, files), len(numbers)) for chain in chains
            ),
        )
    return SourceMap(source_map.file, tuple(files), tuple(numbers), origins, links)


def _of_each_line(
    frames: Iterable[tuple[Frames, ...]], answer: Callable[[tuple[Frames, ...]], Lines]
) -> tuple[Lines, ...]:
    """The answer for each line; equal locations share their chains, looked up once."""
    known: dict[int, tuple[tuple[Frames, ...], Lines]] = {}
    lines_of_each: list[Lines] = []
    for chains in frames:
        entry = known.get(id(chains))
        if entry is None:
            # Chains are kept alive with their answer, so that an id stays their own.
            entry = known[id(chains)] = chains, answer(chains)
        lines_of_each.append(entry[1])
    return tuple(lines_of_each)


def _numbered(chain: Frames, files: dict[str, int]) -> tuple[tuple[int, int, int], ...]:
    return tuple((files.setdefault(name, len(files)), line, column) for name, line, column in chain)


def _assemble(
    file: str,
    located: Mapping[str, list[tuple[Frames, ...]]],
    links: Mapping[tuple[str, str], tuple[Lines, ...]],
) -> SourceMap:
    files: dict[str, int] = {}
    numbers: dict[Frames, int] = {}
    origins: dict[str, tuple[tuple[int, ...], ...]] = {}
    for stage, lines in located.items():
        origins[stage] = tuple(
            tuple(numbers.setdefault(chain, len(numbers)) for chain in chains) for chains in lines
        )
    chains = tuple(_numbered(chain, files) for chain in numbers)
    return SourceMap(file, tuple(files), chains, origins, dict(links))


# MLIR: loc(...)

_OWN_LOCATION = re.compile(r" loc\((#loc\d*|unknown|\"[^\"]*\":\d+:\d+.*?)\)$")
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)(?: to (?:\d+)?:\d+)?')
_TOKEN = re.compile(
    rf'(?P<place>{_PLACE.pattern})|(?P<name>"(?:[^"\\]|\\.)*")\(|(?P<alias>#loc\d*)|'
    r"(?P<call>callsite\()"
    r"|(?P<fused>fused(?:<[^>]*>)?\[)|(?P<unknown>unknown)"
)


_MOST_NESTED, _MOST_CHAINS, _MOST_FRAMES = 100, 64, 200
"""Limits on a location: those of a file may nest, and call sites double with each other."""


class _Locations:
    """The locations of one module's text: its aliases, resolved to call chains when asked for."""

    def __init__(self, lines: Iterable[str]) -> None:
        aliases = (line.partition(" = loc(") for line in lines if line.startswith("#loc"))
        self._written = {alias: written.removesuffix(")") for alias, _, written in aliases}
        self._resolved: dict[str, tuple[Frames, ...]] = {}
        self._depth = 0

    def chains(self, written: str) -> tuple[Frames, ...]:
        if written not in self._resolved:
            self._resolved[written] = ()  # for a location that is part of itself
            self._resolved[written] = self._read(written, 0)[0][:_MOST_CHAINS]
        return self._resolved[written]

    def _read(self, text: str, at: int) -> tuple[tuple[Frames, ...], int]:
        token = _TOKEN.match(text, at)
        if token is None or self._depth >= _MOST_NESTED:
            return (), len(text)
        self._depth += 1
        try:
            return self._read_token(text, at, token)
        finally:
            self._depth -= 1

    def _read_token(
        self, text: str, at: int, token: re.Match[str]
    ) -> tuple[tuple[Frames, ...], int]:
        end = token.end()
        if token["place"]:
            place = _PLACE.match(text, at)
            assert place is not None
            column = triton_api.column_from_one(_small(place[3]))
            return (((string_of_ir(place[1]), _small(place[2]), column),),), end
        if token["alias"]:
            return self.chains(self._written.get(token["alias"], "unknown")), end
        if token["name"]:
            chains, end = self._read(text, end)
            return chains, end + 1
        if token["call"]:
            return self._read_call(text, end)
        if token["fused"]:
            return self._read_fused(text, end)
        return (), end

    def _read_call(self, text: str, at: int) -> tuple[tuple[Frames, ...], int]:
        callees, end = self._read(text, at)
        callers, end = self._read(text, end + len(" at "))
        pairs = itertools.islice(
            itertools.product(callees or ((),), callers or ((),)), _MOST_CHAINS
        )
        joined = ((callee + caller)[:_MOST_FRAMES] for callee, caller in pairs)
        return tuple(chain for chain in joined if chain), end + 1

    def _read_fused(self, text: str, at: int) -> tuple[tuple[Frames, ...], int]:
        frames: list[Frames] = []
        while at < len(text) and text[at] != "]":
            chains, at = self._read(text, at)
            frames += chains
            while at < len(text) and text[at] in ", ":
                at += 1
        return tuple(dict.fromkeys(frames)), at + 1


def module_frames(text: str) -> list[tuple[Frames, ...]]:
    """For each line of a module's text, the chains of its op.

    An op with regions prints its location after the last one:
    its first line, and those between regions, share it.
    """
    lines = text.splitlines()
    locations = _Locations(lines)
    frames: list[tuple[Frames, ...]] = [()] * len(lines)
    open_ops: list[list[int]] = []
    for at, line in enumerate(lines):
        if line.startswith("#"):
            continue
        closes = "}" in line and line.lstrip().startswith("}")
        belongs = open_ops.pop() if closes and open_ops else []
        belongs.append(at)
        if line.endswith("{"):
            open_ops.append(belongs)
        elif written := _own_location(line):
            chains = locations.chains(written)
            for index in belongs:
                frames[index] = chains
    return frames


def _own_location(line: str) -> str:
    at = line.rfind(" loc(#")
    if at >= 0 and line[at + 6 : -1].isalnum() and line[-1] == ")" and ' loc("' not in line:
        return line[at + 5 : -1]  # most lines: several times as fast as the general pattern
    location = _OWN_LOCATION.search(line)
    return "" if location is None else location[1]


# From TTIR to TTGIR: the stage, run once more


def _ttir_lines_of_ttgir(
    ttir: str, ttgir: str, target: Target, options: Mapping[str, Any], query: Query
) -> tuple[Lines, ...] | None:
    """For each line of TTGIR its lines of TTIR; None if that cannot be known for sure."""
    usable = {
        name: value for name, value in options.items() if triton_api.may_be_of_file(name, value)
    }
    try:
        counted, again = query(triton_api.ttgir_naming_ttir_lines, ttir, target, usable)
    except Exception:  # other passes made this TTGIR than the stage's own
        return None
    if _skeleton(counted) != _skeleton(ttir) or _skeleton(again) != _skeleton(ttgir):
        return None
    of_code = iter(
        tuple(sorted({chain[0][1] for chain in chains if chain}))
        for line, chains in zip(again.splitlines(), module_frames(again))
        if not line.startswith("#loc")
    )
    # The two texts define different locations, and different numbers of them.
    return tuple(() if line.startswith("#loc") else next(of_code) for line in ttgir.splitlines())


_LOCATION = re.compile(r' loc\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*")*\))*\)')
_VALUE = re.compile(r"%[\w$.-]+")


def _skeleton(text: str) -> list[str]:
    """A module's lines without locations and names of values, which reading back may lose."""
    return [
        _VALUE.sub("%", _LOCATION.sub("", line))
        for line in text.rstrip().splitlines()
        if not line.startswith("#loc")
    ]


# LLVM IR, PTX, AMD assembly, SASS


def _frames_after_ttgir(name: str, stages: Stages) -> list[tuple[Frames, ...]]:
    text = stages[name].text
    if name == "llir":
        return _llvm_frames(text)
    if name == "sass":
        return _sass_frames(text, stages["ptx"].text if "ptx" in stages else "")
    return _assembly_frames(text)


def _name_ttgir(frames: Iterable[tuple[Frames, ...]]) -> bool:
    """Whether these locations name lines of the TTGIR text."""
    different = {id(chains): chains for chains in frames}.values()
    files = {frame[0] for chains in different for chain in chains for frame in chain}
    return any(file.endswith(triton_api.TTGIR_FILE_SUFFIX) for file in files)


def _ttgir_lines(chains: tuple[Frames, ...]) -> Lines:
    suffix = triton_api.TTGIR_FILE_SUFFIX
    return tuple(
        dict.fromkeys(
            frame[1] for chain in chains for frame in chain[:1] if frame[0].endswith(suffix)
        )
    )


_METADATA = re.compile(
    r"^!(?P<number>\d+) = (?:distinct )?!(?P<kind>DI\w+)\((?P<fields>.*)\)$", re.M
)
_FIELD = re.compile(r'\b(\w+): (?:!(\d+)|(\d+)|"([^"]*)")')
_DEBUG_USE = re.compile(r"!dbg !(\d+)")


def _small(digits: str) -> int:
    """The number of a line or a column; 0 for what cannot be one."""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


def _llvm_frames(text: str) -> list[tuple[Frames, ...]]:
    """For each line of LLVM IR its call chain, through `!DILocation` and its `inlinedAt`."""
    nodes = {
        match["number"]: {
            "kind": match["kind"],
            **{
                key: ref or number or word
                for key, ref, number, word in _FIELD.findall(match["fields"])
            },
        }
        for match in _METADATA.finditer(text)
    }
    known: dict[str, Frames] = {}

    def file_of(scope: str | None) -> str:
        for _ in range(_MOST_NESTED):  # a scope may be its own
            if scope not in nodes or "file" in nodes[scope]:
                break
            scope = nodes[scope].get("scope")
        entry = nodes.get(nodes.get(scope or "", {}).get("file", ""), {})
        folder, name = entry.get("directory", ""), entry.get("filename", "")
        return string_of_ir(f"{folder}/{name}" if folder else name)

    def chain_of(number: str, depth: int = 0) -> Frames:
        if number not in known and depth >= _MOST_NESTED:
            return ()
        if number not in known:
            known[number] = ()  # for a place that was inlined at itself
            node = nodes.get(number, {})
            line = _small(node.get("line", ""))
            outer = chain_of(node["inlinedAt"], depth + 1) if "inlinedAt" in node else ()
            scope = node.get("scope") if node.get("kind") == "DILocation" else number
            # DWARF's columns are what MLIR gave; a line 0 is the compiler's own doing.
            column = triton_api.column_from_one(_small(node["column"])) if "column" in node else 0
            own = ((file_of(scope), line, column),) if line else ()
            known[number] = (own + outer)[:_MOST_FRAMES]
        return known[number]

    frames: list[tuple[Frames, ...]] = []
    for line in text.splitlines():
        use = None if line.startswith("!") else _DEBUG_USE.search(line)
        chain = chain_of(use[1]) if use else ()
        frames.append((chain,) if chain else ())
    return frames


_FILE_DIRECTIVE = re.compile(
    r'^[ \t]*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"((?:[^"\\]|\\.)*)")?', re.M
)
_LOC_DIRECTIVE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_ASSEMBLY_CODE = re.compile(r"^\s+(?:@|\{|[a-z])")


def _assembly_frames(text: str) -> list[tuple[Frames, ...]]:
    """For each line of PTX or AMD assembly the place of the last `.loc`, the innermost."""
    files = {
        number: string_of_assembly(f"{first}/{second}" if second and first else second or first)
        for number, first, second in _FILE_DIRECTIVE.findall(text)
    }
    frames: list[tuple[Frames, ...]] = []
    current: tuple[Frames, ...] = ()
    for line in text.splitlines():
        if location := _LOC_DIRECTIVE.match(line):
            number, at = location[1], _small(location[2])
            column = triton_api.column_from_one(_small(location[3]))
            current = (((files.get(number, ""), at, column),),) if at else ()
        elif line.startswith(("}", ".Lfunc_end")):  # PTX closes a function so, AMD assembly so
            current = ()
        frames.append(current if _ASSEMBLY_CODE.match(line) else ())
    return frames


def _sass_frames(text: str, ptx: str) -> list[tuple[Frames, ...]]:
    """For each line of SASS the place that the last comment of nvdisasm's named:
    file and line, no column.

    ptxas takes what follows the last `\\` of an escape for the file's name, and what is before it
    for its folder: a name that so loses its escape is looked up among those of the PTX.
    """
    written = {
        first.replace("\\", "/"): string_of_assembly(first)
        for _, first, second in _FILE_DIRECTIVE.findall(ptx)
        if not second
    }
    frames: list[tuple[Frames, ...]] = []
    current: tuple[Frames, ...] = ()
    for line in text.splitlines():
        if location := instructions.SASS_LOCATION.match(line):
            file = location["file"]
            file = written.get(file.replace("\\", "/"), string_of_assembly(file))
            current = (((file, _small(location["line"]), 0),),)
        elif line.startswith(".text."):
            current = ()
        frames.append(current if instructions.INSTRUCTION_LINE.match(line) else ())
    return frames


def _ptx_lines_of_sass(stages: Stages) -> tuple[Lines, ...]:
    """For each line of SASS its line of PTX, as ptxas wrote it into the cubin."""
    cubin = stages["cubin"].content
    assert isinstance(cubin, bytes)
    table = ptx_lines(cubin)
    of_instructions = _listed_ptx_lines(cubin) if table is None else None
    lines_of_each: list[Lines] = []
    for line in stages["sass"].text.splitlines():
        code = instructions.INSTRUCTION_LINE.match(line)
        if code is None:
            number = 0
        elif of_instructions is not None:
            number = next(of_instructions, 0)
        else:
            number = _line_at(table or [], int(code["address"], 16))
        lines_of_each.append((number,) if number else ())
    return tuple(lines_of_each)


def _line_at(table: list[tuple[int, int]], address: int) -> int:
    """The line of the last row at or before an address; later rows replace earlier ones."""
    at = bisect.bisect_right(table, address, key=lambda row: row[0])
    return table[at - 1][1] if at else 0


def _listed_ptx_lines(cubin: bytes) -> Iterator[int]:
    """The PTX line of each instruction by nvdisasm, which is slower than the table."""
    current = 0
    for line in instructions.run_on_cubin("nvdisasm", ["-gp", "-c"], cubin).splitlines():
        if location := instructions.SASS_LOCATION.match(line):
            current = int(location["line"])
        elif line.startswith(".text."):
            current = 0
        elif instructions.INSTRUCTION_LINE.match(line):
            yield current
