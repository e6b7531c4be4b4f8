"""Texts of a file that would take forever, or all memory: they are read within limits."""

from __future__ import annotations

import gzip
import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kernellab
from kernellab.common.saved_files import BadFile, gunzipped
from kernellab.compiler.machine_code.cubin import sections
from kernellab.compiler.machine_code.instructions import instruction_count, matrix_instructions
from kernellab.compiler.source_map import _llvm_frames, module_frames
from kernellab.errors import CompileError
from tests.support import fuzzed_files
from tests.support.source_files import ROOT

SECONDS = 2


@contextmanager
def quick() -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < SECONDS


PLACE = '#loc0 = loc("a.py":1:1)'
CALLS = range(1, 41)
LOCATIONS = {
    "of itself": ["#loc40 = loc(#loc40)"],
    "of each other": ["#loc40 = loc(#loc1)", "#loc1 = loc(callsite(#loc40 at #loc40))"],
    "call sites that double": [
        f"#loc{n} = loc(callsite(#loc{n - 1} at #loc{n - 1}))" for n in CALLS
    ],
    "fused places that double": [
        f"#loc{n} = loc(callsite(fused[#loc{n - 1}, #loc0] at fused[#loc{n - 1}, #loc0]))"
        for n in CALLS
    ],
    "a long chain": [
        "#loc40 = loc(#loc20000)",
        *(f"#loc{n} = loc(callsite(#loc0 at #loc{n - 1}))" for n in range(41, 20_001)),
    ],
    "call sites in a text": [f"#loc40 = loc({'callsite(' * 30_000}#loc0{' at #loc0)' * 30_000})"],
    "names in a text": [f"""#loc40 = loc({'"n"(' * 30_000}#loc0{")" * 30_000})"""],
    "a line of many digits": [f'#loc40 = loc("a.py":{"9" * 5_000}:1)'],
    "a location that is none": ["#loc40 = loc(callsite(callsite(callsite("],
}


@pytest.mark.parametrize("name", list(LOCATIONS))
def test_locations_have_an_end(name: str) -> None:
    text = "\n".join(["module {", "} loc(#loc40)", PLACE, *LOCATIONS[name]])
    with quick():
        frames = module_frames(text)
    assert len(frames) == len(text.splitlines())
    assert all(len(chains) <= 64 for chains in frames)
    assert all(len(chain) <= 200 for chains in frames for chain in chains)


def inlined(count: int) -> str:
    return "".join(
        f"x !dbg !{n}\n!{n} = !DILocation(line: 1, scope: !0, inlinedAt: !{n + 1})\n"
        for n in range(1, count)
    )


DEBUG_INFO = {
    "inlined at itself": "x !dbg !2\n!2 = !DILocation(line: 1, scope: !1, inlinedAt: !2)",
    "inlined at each other": "x !dbg !1\n!1 = !DILocation(line: 1, inlinedAt: !2)\n"
    "!2 = !DILocation(line: 1, inlinedAt: !1)",
    "a scope of its own": "x !dbg !2\n!1 = distinct !DISubprogram(scope: !1, line: 3)\n"
    "!2 = !DILocation(line: 1, scope: !1)",
    "scopes of each other": "x !dbg !2\n!1 = !DILexicalBlock(scope: !3)\n"
    "!3 = !DILexicalBlock(scope: !1)\n!2 = !DILocation(line: 1, scope: !1)",
    "inlined without end": inlined(8_000),
    "many scopes": "".join(
        f"x !dbg !{n}\n!{n} = !DILocation(line: 1, scope: !{n + 9000})\n"
        f"!{n + 9000} = !DILexicalBlock(scope: !{n + 9001})\n"
        for n in range(1, 6_000)
    ),
    "a word for a line": 'x !dbg !2\n!2 = !DILocation(line: "x", column: "y", scope: !1)',
    "many digits": f"x !dbg !2\n!2 = !DILocation(line: {'9' * 5_000}, scope: !1)",
    "no such node": "x !dbg !2\n!2 = !DILocation(line: 1, scope: !7, inlinedAt: !8)",
}


@pytest.mark.parametrize("name", list(DEBUG_INFO))
def test_debug_information_has_an_end(name: str) -> None:
    text = DEBUG_INFO[name]
    with quick():
        frames = _llvm_frames(text)
    assert all(len(chain) <= 200 for chains in frames for chain in chains)


SASS = {
    "empty lines": "\n" * 300_000,
    "a line of blanks": " " * 60_000 + "x",
    "lines of blanks": (" " * 60 + "\n") * 5_000,
    "comments": "//\n" * 100_000,
    "no operations": "        /*0000*/ NOP ;\n" * 20_000,
}


@pytest.mark.parametrize("name", list(SASS))
def test_machine_code_is_counted_in_time(name: str) -> None:
    with quick():
        assert instruction_count(SASS[name]) == 0 or name == "no operations"
        matrix_instructions(SASS[name])


@pytest.mark.parametrize("count", [1_000, 65_535])
def test_names_of_sections_are_no_larger_than_the_file(count: int) -> None:
    names = 64 + 64 * count
    header = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, 0x33, 2, 190, 1, 0, 0, 64, 0, 64, 56, 0, 64, count, 1),
    )
    entry = struct.pack("<IIQQQQIIQQ", 0, 8, 0, 0, names, 0, 0, 0, 0, 0)
    with quick(), pytest.raises(CompileError):
        sections(header + entry * count + b"a" * 4_000 + b"\0")


@pytest.mark.parametrize("count", [101, 50_000])
@pytest.mark.parametrize("between", [b"", b"\0" * 3])
def test_gzip_members_are_counted(count: int, between: bytes) -> None:
    with quick(), pytest.raises(BadFile):
        gunzipped((gzip.compress(b"", mtime=0) + between) * count)


def test_a_layout_whose_field_is_an_object_is_text(tmp_path: Path) -> None:
    data = json.loads((ROOT / "notebooks/recorded/tuning_h200_vector_add.json").read_text())
    fields = {"size_per_thread": {"dict": [["a", 1]]}, "threads_per_warp": [32]}
    layout = {"shown": "a layout", "layout": "BlockedLayout", "fields": fields}
    data["tunings"][0]["constants"] = {"LAYOUT": layout}
    (tmp_path / "sweep.json").write_text(json.dumps(data))
    loaded = kernellab.load(tmp_path / "sweep.json")
    assert repr(loaded.constants["LAYOUT"]) == "a layout"


@pytest.mark.slow
@pytest.mark.parametrize("change", ["no links", "a late line", "a late function"])
def test_a_source_map_with_odd_lines_is_shown(tmp_path: Path, change: str) -> None:
    kind = fuzzed_files.KINDS["compilation"]
    data = json.loads(gzip.decompress(kind.content()))
    source_map = data["source_map"]
    if change == "no links":
        source_map["links"] = {}
    elif change == "a late line":
        for chain in source_map["chains"]:
            chain[1::3] = [1_999_000] * len(chain[1::3])
    else:
        for function in data["functions"]:
            function["first_line"] = 1_990_000
    file = tmp_path / "file"
    file.write_bytes(gzip.compress(json.dumps(data).encode()))
    started = time.process_time()
    kind.look(kernellab.load(file))  # raises nothing but KernelLabError
    assert time.process_time() - started < 5 * SECONDS
