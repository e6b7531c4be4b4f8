"""Source maps: lines with a load, a dot, a store; chains of helpers; what must not change."""

import functools
import json
import re
import zlib
from pathlib import Path

import pytest
import triton

from kernellab.compiler.binding import bind
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.cubin import ptx_lines
from kernellab.compiler.machine_code.instructions import run_on_cubin
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.source_map import module_frames, with_passes
from kernellab.compiler.targets import parse_target
from kernellab.errors import NoSuchStage, SourcePosition
from kernellab.records import SourceMap
from tests.corpus import elementwise, matmuls, rows
from tests.corpus.loader import entry
from tests.kernels import gluon_add
from tests.support import versions
from tests.support.compiled import of_corpus
from tests.support.source_lines import line_of


@functools.cache
def compiled(name: str, target: str, ttgir_lines: bool = True) -> Compilation:
    one, to = entry(name), parse_target(target)
    call = bind(one.kernel, one.types, {}, to, options=one.options, constants=one.constants)
    return compile_bound(one.kernel, call, to, ttgir_lines=ttgir_lines)


def texts(compilation: Compilation, stage: str, lines) -> list[str]:
    all_lines = compilation.stages[stage].text.splitlines()
    return [all_lines[line - 1] for line in lines]


def lines_with(compilation: Compilation, stage: str, pattern: str) -> list[int]:
    lines = compilation.stages[stage].text.splitlines()
    return [number for number, line in enumerate(lines, start=1) if re.search(pattern, line)]


def instructions_only(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.match(r"\s+/\*[0-9a-f]{4}", line)]


def ptx_code(text: str) -> list[str]:
    """A PTX text without what names places: .loc, .file, labels, comments, debug sections."""
    code = text.partition("\t.section")[0].splitlines()
    named = re.compile(r"\s*\.(loc|file)\s|\$L__(tmp|func)")
    return [line.split("//")[0].rstrip() for line in code if not named.match(line)]


def ptxas_heeds_lines(name: str, target: str) -> bool:
    """Where ptxas chooses other registers or another order under other .loc lines."""
    version = triton.__version__.rpartition(".")[0]
    return target == "sm_100" or (
        version in ("3.6", "3.8") and (name, target) == ("layer_norm_backward", "sm_90")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("softmax", "sm_75"), ("matmul", "sm_80"), ("matmul", "sm_90"), ("matmul_tma", "sm_90"),
        ("layer_norm_backward", "sm_90"), ("ragged_scale", "sm_90"), ("matmul", "sm_100"),
        ("sort", "sm_120"),
    ],
)  # fmt: skip
def test_the_machine_code_is_the_same_byte_by_byte(name, target):
    ours, plain = compiled(name, target), compiled(name, target, ttgir_lines=False)
    for stage in ("source", "ttir", "ttgir"):
        assert ours.stages[stage].content == plain.stages[stage].content
    assert ptx_code(ours.stages["ptx"].text) == ptx_code(plain.stages["ptx"].text)
    if ptxas_heeds_lines(name, target):
        return
    encodings = []
    for one in (ours, plain):
        cubin = one.stages["cubin"].content
        assert isinstance(cubin, bytes)
        encodings.append(instructions_only(run_on_cubin("nvdisasm", ["-hex", "-c"], cubin)))
    assert encodings[0] == encodings[1]
    assert len(encodings[0]) > 50


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_amds_assembly_is_the_same(target):
    def code(one: Compilation) -> list[str]:
        found = []
        for line in one.stages["amdgcn"].text.partition(".section\t.debug")[0].splitlines():
            if re.match(r"\t[a-z]", line) and not line.startswith("\t.loc"):
                found.append(line.split(";")[0].rstrip())
        return found

    ours = code(compiled("softmax", target))
    assert ours == code(compiled("softmax", target, ttgir_lines=False))
    assert len(ours) > 50


def test_no_path_of_this_machine_is_in_the_stages():
    one = compiled("matmul", "sm_90")
    for stage in ("llir", "ptx", "sass"):
        assert "kernellab-" not in one.stages[stage].text
        assert "matmul.kernellab.ttgir" in one.stages[stage].text


@pytest.mark.slow
def test_ampere_copies_come_from_the_load_and_products_from_the_dot():
    one = compiled("matmul", "sm_80")
    line_map = one.source_map
    loads = [
        line_of(matmuls, text)
        for text in ("a = tl.load(a_ptrs, mask=", "b = tl.load(b_ptrs, mask=")
    ]
    for line in lines_with(one, "sass", r"LDGSTS"):
        (ttgir,) = line_map.lines("sass", "ttgir", line)
        assert "ttg.async_copy_global_to_local" in texts(one, "ttgir", [ttgir])[0]
        assert line in line_map.lines("ttgir", "sass", ttgir)
        (source,) = line_map.lines("sass", "source", line)
        assert source in loads
        (ttir,) = line_map.lines("sass", "ttir", line)
        assert "tt.load" in texts(one, "ttir", [ttir])[0]
    products = lines_with(one, "sass", r"\bHMMA")
    assert len(products) > 0
    for line in products:
        (ttgir,) = line_map.lines("sass", "ttgir", line)
        assert "tt.dot" in texts(one, "ttgir", [ttgir])[0]
        (dot,) = line_map.lines("sass", "source", line)
        assert dot in lines_with_source("tl.dot(a, b, accumulator)")
    assert set(products) <= set(line_map.lines("source", "sass", dot))
    store = next(n for n in lines_with_source("tl.store(c_ptrs, accumulator.to") if n > dot)
    stores = line_map.lines("source", "sass", store)
    assert any("STG" in text for text in texts(one, "sass", stores))


def lines_with_source(text: str) -> list[int]:
    lines = Path(matmuls.__file__).read_text().splitlines()
    return [number for number, line in enumerate(lines, start=1) if text in line]


def test_hopper_products_come_from_warp_group_dot():
    one = compiled("matmul", "sm_90")
    line_map = one.source_map
    (dot,) = lines_with(one, "ttgir", r"ttng\.warp_group_dot ")
    from_dot = texts(one, "sass", line_map.lines("ttgir", "sass", dot))
    assert any("HGMMA" in text for text in from_dot)
    waits = lines_with(one, "ttgir", r"warp_group_dot_wait.*pendings = 0")
    assert any(
        "WARPGROUP.DEPBAR" in text
        for wait in waits
        # Triton 3.9 gives the instruction that waits the location of the operation after it.
        for line in (wait, wait + 1)
        for text in texts(one, "sass", line_map.lines("ttgir", "sass", line))
    )
    for first in ("ttir", "ttgir", "ptx"):
        assert line_map.is_exact(first, "sass")
    assert line_map.is_exact("ttir", "ttgir")


@pytest.mark.parametrize(("target", "matrix"), [("gfx942", "v_mfma"), ("gfx950", "v_mfma")])
def test_amd_products_come_from_the_dot(target, matrix):
    one = compiled("matmul", target)
    products = lines_with(one, "amdgcn", matrix)
    assert products
    for line in products:
        (ttgir,) = one.source_map.lines("amdgcn", "ttgir", line)
        assert "tt.dot" in texts(one, "ttgir", [ttgir])[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["sm_90", "gfx942", "sm_75", "sm_100"])
def test_every_pair_of_stages_goes_both_ways(target):
    one = compiled("softmax", target)
    line_map = one.source_map
    stages = [stage for stage in line_map.stages if stage != "source"]
    assert len(stages) >= 4
    for first in stages:
        for second in stages:
            if first != second:
                found = 0
                for line in range(1, one.stages[first].text.count("\n") + 2):
                    for other in line_map.lines(first, second, line):
                        found += 1
                        assert line in line_map.lines(second, first, other), (first, second, line)
                assert found > 10, (first, second)


def test_a_load_a_maximum_and_a_store_of_softmax():
    one = compiled("softmax", "sm_90")
    line_map = one.source_map
    first = rows.softmax.starting_line_number
    source = Path(rows.__file__).read_text().splitlines()
    load, store = (
        next(n for n in range(first, first + 15) if word in source[n - 1])
        for word in ("tl.load", "tl.store")
    )
    for stage, line, word in (
        ("sass", load, "LDG"),
        ("sass", store, "STG"),
        ("ptx", load, "ld.global"),
        ("ttir", store, "tt.store"),
    ):
        found = texts(one, stage, line_map.lines("source", stage, line))
        assert any(word in text for text in found)
    (loaded,) = lines_with(one, "ttgir", r"= tt\.load")
    assert line_map.lines("ttgir", "source", loaded) == (load,)


def test_helpers_of_helpers_have_their_chain():
    one = compiled("swish", "sm_80")
    exponential = line_of(elementwise, "return 1.0 / (1.0 + tl.exp(-x))")
    inner_call = line_of(elementwise, "return x * sigmoid_of(beta * x)")
    outer_call = line_of(elementwise, "swish_of(x, beta), mask=inside)")
    for line in lines_with(one, "sass", r"MUFU\.EX2"):
        (chain,) = one.source_map.chain("sass", line)
        assert [frame.line for frame in chain] == [exponential, inner_call, outer_call]
        assert {frame.file for frame in chain} == {elementwise.__file__}
        assert one.source_map.lines("sass", "source", line) == (exponential, inner_call, outer_call)
        for source in (exponential, inner_call, outer_call):
            assert line in one.source_map.lines("source", "sass", source)
    instruction = next(i for i in one.instructions if i.opcode == "MUFU.EX2")
    assert instruction.source is not None
    assert instruction.source.line == exponential
    assert "math.exp" in texts(one, "ttgir", [instruction.ttgir_line])[0]


def test_a_line_of_another_file_is_named_by_its_position():
    one = compiled("softmax", "sm_90")
    (chain,) = {
        chain
        for line in lines_with(one, "ttir", "arith.maxnumf|arith.maximumf")
        for chain in one.source_map.chain("ttir", line)
    }
    library = chain[0]
    assert library.file.endswith("standard.py")
    found = one.source_map.lines("source", "ttir", SourcePosition(library.file, library.line))
    assert any("arith.max" in text for text in texts(one, "ttir", found))


@pytest.mark.slow
def test_ptx_lines_of_sass_are_nvdisasms():
    cubin = compiled("matmul", "sm_90").stages["cubin"].content
    assert isinstance(cubin, bytes)
    listed: list[tuple[int, int]] = []
    current = 0
    for line in run_on_cubin("nvdisasm", ["-gp", "-c"], cubin).splitlines():
        if location := re.match(r'\s*//## File "[^"]*", line (\d+)', line):
            current = int(location[1])
        elif code := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+\S", line):
            listed.append((int(code[1], 16), current))
    table = ptx_lines(cubin)
    assert table is not None
    for address, number in listed:
        assert [row for at, row in table if at <= address][-1] == number


@pytest.mark.parametrize(
    ("opcode", "instruction"),
    [("LDGSTS", "cp.async"), ("HMMA", "mma.sync"), ("LDSM", "ldmatrix"), ("STG", "st.global")],
)
def test_an_instruction_names_its_ptx(opcode, instruction):
    one = compiled("matmul", "sm_80")
    found = lines_with(one, "sass", rf"\b{opcode}\b")
    assert found
    for line in found:
        (text,) = texts(one, "ptx", one.source_map.lines("sass", "ptx", line))
        assert instruction in text


@pytest.mark.slow
def test_a_gluon_kernel_has_no_ttir(raised):
    to = parse_target("sm_90")
    call = bind(gluon_add.gluon_add, ("*fp32:16",) * 3 + ("i32",), {"BLOCK": 512}, to)
    one = compile_bound(gluon_add.gluon_add, call, to, ttgir_lines=True)
    assert "ttir" not in one.source_map.stages
    store = lines_with(one, "ttgir", r"tt\.store")[0]
    assert any(
        "STG" in text for text in texts(one, "sass", one.source_map.lines("ttgir", "sass", store))
    )
    raised(NoSuchStage, one.source_map.lines, "ttir", "sass", 1, match="ttir")


@pytest.mark.slow
def test_without_it_lines_are_related_through_the_kernel():
    one = compiled("matmul", "sm_80", ttgir_lines=False)
    line_map = one.source_map
    assert not line_map.is_exact("ttgir", "sass")
    assert line_map.is_exact("ptx", "sass")
    product = lines_with(one, "sass", r"\bHMMA")[0]
    assert any(
        "tt.dot" in text for text in texts(one, "ttgir", line_map.lines("sass", "ttgir", product))
    )
    exact = compiled("matmul", "sm_80").source_map
    assert set(line_map.lines("sass", "source", product)) == set(
        exact.lines("sass", "source", lines_with(compiled("matmul", "sm_80"), "sass", r"\bHMMA")[0])
    )


def test_a_map_survives_json_and_is_small():
    line_map = compiled("matmul", "sm_90").source_map
    text = json.dumps(line_map.to_json())
    assert SourceMap.from_json(json.loads(text)) == line_map
    assert len(zlib.compress(text.encode())) < 20_000


def test_locations_of_every_kind_are_read():
    text = """\
module {
  %0 = arith.constant 1 : i32 loc(#loc1)
  %1 = scf.for %i = %0 to %0 step %0 : i32 {
    %2 = arith.addi %0, %0 : i32 loc(#loc4)
    %3 = arith.addi %0, %0 : i32 loc(#loc5)
    %4 = arith.addi %0, %0 : i32 loc(unknown)
  } loc(#loc3)
} loc(#loc)
#loc = loc("k.py":1:0)
#loc1 = loc("x"(#loc))
#loc2 = loc("lib.py":7:4)
#loc3 = loc(callsite(#loc2 at #loc1))
#loc4 = loc(fused[#loc1, #loc3])
#loc5 = loc(callsite("a b.py":3:2 at callsite(#loc2 at "k.py":9:0)))
"""
    frames = module_frames(text)
    first, third, fifth = (0, 2, 4) if versions.COLUMNS_FROM_ONE else (1, 3, 5)
    kernel, library = ("k.py", 1, first), ("lib.py", 7, fifth)
    assert frames[1] == ((kernel,),)
    assert frames[2] == frames[6] == ((library, kernel),)
    assert frames[3] == ((kernel,), (library, kernel))
    assert frames[4] == ((("a b.py", 3, third), library, ("k.py", 9, first)),)
    assert frames[5] == ()
    assert frames[0] == frames[7] == ((kernel,),)


def test_two_calls_of_one_helper_are_told_apart_in_texts_without_links() -> None:
    """Modules before the TTGIR meet machine code by the line of the helper, and by its caller."""
    compilation = of_corpus("matmul", "sm_90")
    (run,) = [one for one in compilation.passes if one.name == "convert_to_ttgpuir"]
    found = with_passes(compilation.source_map, {run.label: run.text.read()})
    assert not found.is_exact("sass", run.label)
    held = 0
    for line in range(1, len(found.links["ttgir", "sass"]) + 1):
        chains = [one for one in found.chain("sass", line) if one[0].file != found.file]
        if not chains or len(chains) < len(found.chain("sass", line)):
            continue
        callers = {chain[-1].line for chain in chains}
        for there in found.lines("sass", run.label, line):
            assert callers & {chain[-1].line for chain in found.chain(run.label, there)}
            held += 1
    assert held > 0, "machine code that was made from a helper's lines"
    helpers = {
        chain[-1].line
        for line in range(1, len(found.origins[run.label]) + 1)
        for chain in found.chain(run.label, line)
        if chain[0].file != found.file
    }
    assert len(helpers) > 1, "a helper that is called from several lines"
