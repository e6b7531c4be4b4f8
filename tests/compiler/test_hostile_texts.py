"""Texts of a file that would take forever, or all memory: they are read within limits."""

import gzip
import json
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import kernellab
from kernellab.common.saved_files import BadFile, gunzipped
from kernellab.compiler import passes
from kernellab.compiler.analyses import axis_info
from kernellab.compiler.compare import without_locations
from kernellab.compiler.machine_code import instructions
from kernellab.compiler.machine_code.cubin import sections
from kernellab.compiler.source_map import _llvm_frames, module_frames
from kernellab.errors import CompileError, KernelLabError, NotRecorded
from kernellab.graphs.report import script
from kernellab.records import SourceMap, Target
from kernellab.records.graphs import GraphNode, Level
from kernellab.triton_api.stages import generic_form
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
def test_locations_have_an_end(name) -> None:
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
def test_debug_information_has_an_end(name) -> None:
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
def test_machine_code_is_counted_in_time(name) -> None:
    with quick():
        assert instructions.instruction_count(SASS[name]) == 0 or name == "no operations"
        instructions.matrix_instructions(SASS[name])


@pytest.mark.parametrize("count", [1_000, 65_535])
def test_names_of_sections_are_no_larger_than_the_file(count) -> None:
    names = 64 + 64 * count
    header = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, 0x33, 2, 190, 1, 0, 0, 64, 0, 64, 56, 0, 64, count, 1),
    )
    entry = struct.pack("<IIQQQQIIQQ", 0, 8, 0, 0, names, 0, 0, 0, 0, 0)
    with quick(), pytest.raises(CompileError):
        sections(header + entry * count + b"a" * 4_000 + b"\0")


BLANKS = " " * 40_000
LINES = {
    "blanks": f"{BLANKS}x", "blanks before a location": f"{BLANKS}xloc(",
    "ends of lines": "\r\n" * 20_000, "fields": f"!1 = !DILocation({'a' * 40_000}",
    "debug sections": ".section .debug_x\n" * 4_000, "loads": "ld." * 13_000,
    "AMD's instruction": f"f:\n\tv_add{BLANKS}x{BLANKS}y",
    "an instruction": f"        /*0010*/ ADD{BLANKS}x",
}  # fmt: skip
PTX = ".version 8\n.target sm_90\n.visible .entry k()\n"
READERS: dict[str, Callable[[str], object]] = {
    "comparison": without_locations,
    "comparison of PTX": lambda text: without_locations(PTX + text),
    "refusal": passes.without_locations,
    "debug information": _llvm_frames,
    "accesses": axis_info.access_width,
    "AMD's code": lambda text: list(
        instructions._amd_instructions(text, SourceMap("a.py", (), (), {"amdgcn": ()}, {}))
    ),
    "locations": module_frames,
}


@pytest.mark.parametrize("line", list(LINES))
def test_lines_are_read_in_time(line) -> None:
    with quick():
        for read in READERS.values():
            read(LINES[line])


def doubled(first: str, step: str) -> str:
    aliases = (step.replace("N", str(n)).replace("M", str(n - 1)) for n in range(1, 41))
    return "\n".join((first, *aliases))


ALIASES = {
    "lists": doubled('#a0 = "x"', "#aN = [#aM, #aM]"),
    "dictionaries": doubled('#a0 = "x"', "#aN = {a = #aM, b = #aM}"),
    "types": doubled("!a0 = i32", "!aN = tuple<!aM, !aM>"),
    "one line": doubled('#a0 = "x"', "#aN = [#aM, #aM]").replace("\n", " "),
    "a text that looks like one": doubled('#a0 = "x"', '#aN = ["#b = ", #aM, #aM]'),
    "one that is used often": '#a0 = "' + "x" * 100_000 + '"\n#a1 = [' + "#a0, " * 9_000 + "1]",
}


@pytest.mark.parametrize("name", list(ALIASES))
def test_aliases_stand_for_no_more_than_memory_holds(name) -> None:
    kind = "!" if name == "types" else "#"
    text = f"{ALIASES[name]}\nmodule attributes {{ttg.a = {kind}a40}} {{}}"
    with quick(), pytest.raises(KernelLabError):
        generic_form(text, Target("cuda", "90"))


def test_aliases_of_locations_and_layouts_are_read() -> None:
    text = doubled('#loc0 = loc("x":1:1)', "#locN = loc(callsite(#locM at #locM))")
    text += "\n#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>"
    uses = ", ".join(f"ttg.a{n} = #s" for n in range(500))
    assert "swizzled" in generic_form(
        f"{text}\nmodule attributes {{{uses}}} {{}} loc(#loc40)", Target("cuda", "90")
    )


NO_FUNCTION = {
    "empty": "", "not Python": "def f(:", "brackets": "(" * 5_000, "a null": "def f(): pass\0",
    "no function": "x = 1", "minus signs": f"x = {'-' * 20_000}1",
}  # fmt: skip


@pytest.mark.parametrize("name", list(NO_FUNCTION))
def test_a_graph_without_a_function_makes_no_script(name) -> None:
    node = GraphNode("x", "call_function", "aten.sin", "", "", (4,), "float32", None, ())
    with pytest.raises(NotRecorded):
        script(Level("fx", NO_FUNCTION[name], (node,)), "x")


def test_lines_of_many_call_chains_are_found_in_time() -> None:
    source_map = SourceMap(
        "a.py", files=("a.py",), chains=tuple(((0, 1, 1),) for _ in range(100_000)),
        origins={"ttir": ((0,),) * 10}, links={},
    )  # fmt: skip
    with quick():
        for line in range(40):
            source_map.lines("source", "ttir", line)


@pytest.mark.parametrize("count", [101, 50_000])
@pytest.mark.parametrize("between", [b"", b"\0" * 3])
def test_gzip_members_are_counted(count, between) -> None:
    with quick(), pytest.raises(BadFile):
        gunzipped((gzip.compress(b"", mtime=0) + between) * count)


def test_a_layout_whose_field_is_an_object_is_text(tmp_path) -> None:
    data = json.loads((ROOT / "notebooks/recorded/tuning_h200_vector_add.json").read_text())
    fields = {"size_per_thread": {"dict": [["a", 1]]}, "threads_per_warp": [32]}
    layout = {"shown": "a layout", "layout": "BlockedLayout", "fields": fields}
    data["tunings"][0]["constants"] = {"LAYOUT": layout}
    (tmp_path / "sweep.json").write_text(json.dumps(data))
    loaded = kernellab.load(tmp_path / "sweep.json")
    assert repr(loaded.constants["LAYOUT"]) == "a layout"
