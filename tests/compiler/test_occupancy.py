"""Occupancy against NVIDIA's calculator, LLVM's own count, and published facts; resources too."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kernellab.compiler.machine_code.cubin import barrier_count, sections
from kernellab.compiler.machine_code.instructions import run_on_cubin
from kernellab.compiler.machine_code.resources import AMD_LIMITS, NVIDIA_LIMITS, occupancy
from kernellab.compiler.records import Resources
from kernellab.compiler.targets import SUPPORTED_TARGETS, parse_target, shared_limit
from kernellab.errors import CompileError, TargetError
from kernellab.records import Target
from tests.corpus.loader import accepting, entry
from tests.kernels import basic
from tests.support.compiled import compiled, of_corpus

CALCULATOR = json.loads(
    Path(__file__, "../../references/cuda_occupancy.json").resolve().read_text()
)
FACTORS = {1: "warps", 2: "registers", 4: "shared memory", 8: "blocks", 16: "barriers"}


def resources(registers: int = 32, shared_bytes: int = 0, **others: int) -> Resources:
    return Resources(registers, 0, shared_bytes, 0, **others)


@pytest.mark.parametrize("arch", NVIDIA_LIMITS)
def test_nvidias_own_calculator_says_the_same(arch):
    rows = [row for row in CALCULATOR if row[0] == arch]
    assert len(rows) >= 100
    for _, registers, shared, warps, barriers, blocks, factors in rows:
        found = occupancy(
            resources(registers, shared, barriers=barriers), Target("cuda", arch), warps
        )
        case = f"{registers} registers, {shared} bytes, {warps} warps, {barriers} barriers"
        assert found.blocks == blocks, case
        if blocks:
            expected = {name for bit, name in FACTORS.items() if factors & bit}
            # Where barriers lower the number further, the calculator leaves what limited it
            # before in its mask.
            assert set(found.limited_by) <= expected, case
            assert "barriers" in found.limited_by or set(found.limited_by) == expected, case


def test_an_h200s_driver_says_the_same():
    """Recorded by benchmarks/occupancy_on_gpu.py on an H200."""
    recorded = json.loads(Path("benchmarks/data/occupancy_h200.json").read_text())
    target = parse_target(recorded["target"])
    different = [
        (registers, shared, threads)
        for registers, shared, threads, blocks in recorded["rows"]
        if occupancy(Resources(registers, 0, shared, 0), target, -(-threads // 32)).blocks != blocks
    ]
    assert not different
    assert len(recorded["rows"]) == 504


def test_the_programming_guides_example():
    """CUDA C++ Programming Guide, "Multiprocessor Level" (older editions): on a GPU of compute
    capability with 65,536 registers and 2,048 threads per SM, full occupancy needs at most 32
    registers per thread."""
    sm_90 = parse_target("sm_90")
    assert occupancy(resources(32), sm_90, 8).fraction == 1
    assert occupancy(resources(33), sm_90, 8).fraction < 1


def test_tensor_memory_limits_blackwell():
    found = occupancy(
        resources(32, tensor_memory_columns=256, barriers=1), parse_target("sm_100"), 4
    )
    assert (found.blocks, found.limited_by) == (2, ("tensor memory",))
    compilation = of_corpus("matmul", "sm_100", "stages")
    # tcgen05.alloc takes the number of columns as an operand.
    columns = re.search(r"tcgen05\.alloc\S*\s+\[[^\]]*\], (\d+)", compilation.stages["ptx"].text)
    assert columns is not None
    assert compilation.resources.tensor_memory_columns == int(columns[1])
    assert compilation.occupancy().limits["tensor memory"] == 512 // int(columns[1])


def test_limits_agree_with_what_a_launch_checks():
    for target in SUPPORTED_TARGETS:
        limit = shared_limit(target)
        assert limit is not None
        assert occupancy(resources(shared_bytes=limit), target, 4).blocks >= 1
        if target.arch in NVIDIA_LIMITS:
            assert occupancy(resources(shared_bytes=limit + 1), target, 4).blocks == 0
    assert {target.arch for target in SUPPORTED_TARGETS} == {*NVIDIA_LIMITS, *AMD_LIMITS}


def test_an_unknown_gpu_is_said(raised):
    error = raised(TargetError, occupancy, resources(), Target("cuda", "70"), 4, match="sm_70")


@pytest.mark.slow
@pytest.mark.covering
@pytest.mark.parametrize("name", ["vector_add", "softmax", "matmul_small", "attention_forward"])
@pytest.mark.parametrize("arch", AMD_LIMITS)
def test_llvms_own_count_says_the_same(name, arch):
    """LLVM writes the waves per SIMD that registers allow into the assembly, as a comment."""
    target = Target("hip", arch)
    if target not in accepting(entry(name)):
        pytest.skip("refused there")
    try:
        compilation = of_corpus(name, arch, "stages")
    except CompileError as error:
        pytest.skip(error.problem)
    text = compilation.stages["amdgcn"].text
    waves = int(re.findall(r"^; Occupancy: (\d+)", text, re.M)[-1])
    assert re.search(
        r"^; LDSByteSize: 0 bytes", text, re.M
    )  # LLVM does not see what a launch asks for.
    limits = occupancy(compilation.resources, target, 1).limits
    assert min(limits["registers"], limits.get("scalar registers", 64)) // 4 == waves


def test_lds_limits_amd():
    found = occupancy(resources(32, 40 * 1024), parse_target("gfx942"), 4)
    assert (found.blocks, found.limited_by) == (1, ("shared memory",))
    # Four times as much on one workgroup processor as a workgroup may have on gfx942:
    # two of these, and three.
    assert occupancy(resources(32, 40 * 1024), parse_target("gfx1100"), 4).blocks == 3
    assert occupancy(resources(32, 40 * 1024), parse_target("gfx950"), 4).blocks == 4


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_100"])
def test_barriers_are_those_that_the_tools_print(target):
    compilation = of_corpus("softmax", target, "stages")
    cubin = compilation.stages["cubin"].content
    assert isinstance(cubin, bytes)
    # The assembler for Blackwell, which Triton 3.9 takes for Hopper too, writes an attribute;
    # the other a section flag.
    listing = run_on_cubin("cuobjdump", ["-elf"], cubin)
    printed: Any = re.search(
        r"EIATTR_NUM_BARRIERS\s+Format:\s+EIFMT_BVAL\s+Value:\s+0x(\d+)", listing
    ) or re.search(r"SHF_BARRIERS=(\d+)", run_on_cubin("nvdisasm", ["-c"], cubin))
    assert compilation.resources.barriers == int(printed[1], 16) >= 1


@pytest.mark.slow
def test_a_kernel_without_barriers_has_none():
    compilation = of_corpus("vector_add", "sm_90", "stages")
    assert "BAR.SYNC" not in compilation.stages["sass"].text
    assert compilation.resources.barriers == 0


def test_what_is_no_cubin_is_said(raised):
    raised(CompileError, sections, b"MZ not an ELF file")
    raised(CompileError, barrier_count, b"", "kernel")


def test_amd_scalar_registers_are_those_of_the_assembly():
    compilation = of_corpus("softmax", "gfx942", "stages")
    total: Any = re.search(r"^; TotalNumSgprs: (\d+)", compilation.stages["amdgcn"].text, re.M)
    assert compilation.resources.scalar_registers == int(total[1])


@pytest.mark.slow
def test_spill_sites_are_the_local_accesses_of_the_sass():
    keywords: dict[str, Any] = {"ROWS": 128, "COLUMNS": 128, "maxnreg": 32}
    compilation = compiled(basic.copy_many, "*fp32:16", "*fp32:16", "i32", **keywords)
    lines = compilation.stages["sass"].text.splitlines()
    words = re.compile(r"\s(STL|LDL)[\s.]")
    expected = {number for number, line in enumerate(lines, start=1) if words.search(line)}
    sites = compilation.spill_sites
    assert {site.line for site in sites} == expected
    assert len(sites) == len(expected) > 0
    assert {site.kind for site in sites} == {"store", "load"}
    first = basic.copy_many.starting_line_number
    for site in sites:
        # Where a line of the library's stands, the kernel's line that called it stands behind it.
        frames = [frame for frame in site.chain if frame.file == basic.__file__]
        assert not site.chain or first <= frames[-1].line <= first + 7
    assert any(site.chain for site in sites)
    for site in sites:
        opcode: Any = words.search(lines[site.line - 1])
        assert (site.kind == "store") == (opcode[1] == "STL")
        modifier = re.search(r"(?:STL|LDL)\S*\.(64|128)\s", lines[site.line - 1])
        assert site.bytes == (int(modifier[1]) // 8 if modifier else 4)


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "gfx942", "gfx1100"])
@pytest.mark.parametrize(
    ("vary", "values"),
    [("registers", range(8, 256, 8)), ("shared_bytes", range(0, 65536, 1024))],
    ids=["registers", "shared_bytes"],
)
def test_more_of_a_resource_never_raises_occupancy(target, vary, values):
    kernel = resources(64, 16384)
    found = [occupancy(kernel, parse_target(target), 4, **{vary: value}) for value in values]
    blocks = [one.blocks for one in found]
    assert blocks == sorted(blocks, reverse=True)
    assert blocks[0] > blocks[-1]


def test_a_compilation_answers_what_if():
    compilation = of_corpus("softmax", "sm_90", "stages")
    own = compilation.occupancy()
    assert own == occupancy(compilation.resources, compilation.target, 4)
    assert compilation.occupancy(registers=255).blocks < own.blocks
    assert compilation.occupancy(shared_bytes=100_000).blocks == 2
    assert compilation.occupancy(warps=32).blocks == 2
