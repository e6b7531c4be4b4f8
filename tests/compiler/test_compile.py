"""kernellab.compile: every target, its stages, and resources against independent readings."""

import builtins
import inspect
import re
import struct
import subprocess
from importlib.metadata import version
from typing import Any

import pytest
import torch
import triton
from triton.backends.nvidia.compiler import get_ptxas

from kernellab.compiler.machine_code.instructions import disassemble, matrix_instructions
from kernellab.compiler.pipeline import compile
from kernellab.compiler.targets import DEFAULT_TARGET, SUPPORTED_TARGETS, local_target
from kernellab.errors import ArgumentError, CompileError, NoSuchStage, OptionError
from kernellab.records import Target
from tests.kernels import basic, gluon_add, parameters
from tests.support.compiled import compiled

pytestmark = pytest.mark.usefixtures("empty_cache")

NVIDIA = [target for target in SUPPORTED_TARGETS if target.backend == "cuda"]
AMD = [target for target in SUPPORTED_TARGETS if target.backend == "hip"]

COPY = ("*fp32:16", "*fp32:16", "i32")
ADD = ("*fp32:16", "*fp32:16", "*fp32:16", "i32")
MATMUL = (*("*fp16:16",) * 3, *("i32:16",) * 4, "i32:1", "i32:16", "i32:1", "i32:16", "i32:1")
BLOCKS: dict[str, Any] = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}


def needs_sass_of_sm_103():
    if version("triton").startswith("3.6."):
        pytest.skip("the nvdisasm in Triton 3.6 cannot decode sm_103")


def machine_code(compilation):
    name = "sass" if compilation.target.backend == "cuda" else "amdgcn"
    return compilation.stages[name].text


@pytest.mark.parametrize("target", SUPPORTED_TARGETS, ids=str)
def test_vector_add_compiles_for_every_target(target):
    compilation = compiled(basic.add, *ADD, BLOCK=1024, target=target)
    assert compilation.target == target
    last = ["ptx", "cubin", "sass"] if target.backend == "cuda" else ["amdgcn", "hsaco"]
    assert list(compilation.stages) == ["source", "ttir", "ttgir", "llir", *last]
    stages = compilation.stages
    assert stages["source"].text == inspect.getsource(basic.add.fn)
    assert stages["ttir"].text.count("tt.load") == 2
    assert f'ttg.target = "{target.backend}:{target.arch}"' in stages["ttgir"].text
    if target.backend == "cuda":
        assert f".target sm_{target.arch}" in stages["ptx"].text
        if target.arch == "103":
            needs_sass_of_sm_103()
        cubin = stages["cubin"].content
        assert cubin[:4] == b"\x7fELF"
        assert registers_in_elf(cubin, "add") == compilation.resources.registers
        assert re.search(r"\bLDG\.", stages["sass"].text)
        assert re.search(r"\bSTG\.", stages["sass"].text)
    else:
        assert f"-{target.arch}" in stages["amdgcn"].text
        assert stages["hsaco"].content[:4] == b"\x7fELF"
    assert compilation.resources.registers > 0
    assert compilation.resources.spills == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "opcode"),
    [
        ("sm_75", None),  # no matrix instructions for Turing: fp16 becomes fused multiply-adds
        ("sm_80", "HMMA.16816.F32"),
        ("sm_86", "HMMA.16816.F32"),
        ("sm_89", "HMMA.16816.F32"),
        ("sm_90", "HGMMA.64x64x16.F32"),
        ("sm_100", "UTCHMMA"),
        ("sm_103", "UTCHMMA"),
        ("sm_120", "HMMA.16816.F32"),
        ("gfx90a", "v_mfma_f32_32x32x8f16"),
        ("gfx942", "v_mfma_f32_32x32x8_f16"),
        ("gfx950", "v_mfma_f32_32x32x16_f16"),
        ("gfx1100", "v_wmma_f32_16x16x16_f16"),
        ("gfx1201", "v_wmma_f32_16x16x16_f16"),
    ],
)
def test_matmul_uses_the_matrix_instructions_of_its_family(name, opcode):
    if name == "sm_103":
        needs_sass_of_sm_103()
    compilation = compiled(basic.matmul, *MATMUL, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, target=name)
    code = machine_code(compilation)
    found = matrix_instructions(code)
    assert list(found) == ([opcode] if opcode else [])
    if opcode:
        # Independently: every word of the text that starts with the opcode.
        words = [word for word in code.split() if word.startswith(opcode)]
        assert found[opcode] == len(words) > 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("types", "name", "family"),
    [
        ("*fp8e5", "sm_90", "QGMMA"),
        ("*i8", "sm_80", "IMMA"),
        ("*fp64", "sm_80", "DMMA"),
        ("*fp8e5", "sm_120", "QMMA"),
    ],
)
def test_matrix_instructions_of_other_types(types, name, family):
    output = {"*i8": "*i32", "*fp64": "*fp64"}.get(types, "*fp32")
    kernel = basic.matmul_into
    compilation = compiled(kernel, types, types, output, SIZE=64, target=name, record="stages")
    opcodes = matrix_instructions(machine_code(compilation))
    assert {opcode.split(".")[0] for opcode in opcodes} == {family}


def test_matrix_instructions_are_instructions_only():
    sass = """
        //## File "/home/HMMA/kernel.py", line 3
        /*0010*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0020*/              @!P0 HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0030*/                   MOV R1, R2 ; // after HMMA.1688
    """
    assert matrix_instructions(sass) == {"HMMA.16816.F32": 2}
    amd = "\tv_mfma_f32_32x32x8_f16 a[0:3], v1, v2\n; v_mfma_f32_comment\n.Lv_wmma_label:\n"
    assert matrix_instructions(amd) == {"v_mfma_f32_32x32x8_f16": 1}


def test_a_gluon_kernel_starts_at_ttgir():
    compilation = compiled(gluon_add.gluon_add, *ADD, BLOCK=512, target="sm_90")
    # From Triton 3.9 on, a stage of that name holds the front end's own module.
    names = [name for name in compilation.stages if name != "glir"]
    assert names == ["source", "ttgir", "llir", "ptx", "cubin", "sass"]
    assert "sizePerThread = [4]" in compilation.stages["ttgir"].text
    assert compilation.resources.registers > 0


def test_sass_is_disassembled_when_first_asked_for(monkeypatch):
    ran: list[list[str]] = []
    real = subprocess.run

    def noted(command, **keywords):
        ran.append(command)
        return real(command, **keywords)

    compilation = compiled(basic.add, *ADD, BLOCK=1024, target="sm_80")
    monkeypatch.setattr(subprocess, "run", noted)
    assert len(compilation.stages) == 7
    assert not ran
    first = compilation.stages["sass"]
    assert len(ran) == 1
    assert compilation.stages["sass"] is first
    assert compilation.resources is compilation.resources
    assert [command[0].rsplit("/")[-1] for command in ran] == ["nvdisasm", "cuobjdump"]


def test_a_cubin_that_is_none(raised):
    raised(CompileError, disassemble, b"not a cubin")


def ptxas_report(compilation, tmp_path):
    """What ptxas itself says with -v: registers, stack frame, spill stores, shared memory."""
    source = tmp_path / "kernel.ptx"
    source.write_text(compilation.stages["ptx"].text)
    arch = int(compilation.target.arch)
    # Which of the bundled two assembles for sm_90 differs between versions of Triton.
    ptxas = get_ptxas(arch)
    name = f"sm_{arch}{'a' if arch >= 90 else ''}"
    command = [ptxas.path, "-v", "-lineinfo", "--regAllocOptLevel=2", f"--gpu-name={name}"]
    done = subprocess.run(
        [*command, str(source), "-o", str(tmp_path / "again.cubin")],
        capture_output=True,
        text=True,
        check=True,
    )
    used = re.search(r"Used (\d+) registers", done.stderr)
    frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", done.stderr)
    assert used
    assert frame
    static = re.search(r"(\d+) bytes smem", done.stderr)
    return int(used[1]), int(frame[1]), int(frame[2]), int(static[1]) if static else 0


@pytest.mark.slow
@pytest.mark.covering
@pytest.mark.parametrize("target", NVIDIA, ids=str)
@pytest.mark.parametrize("limit", [None, pytest.param(32, marks=pytest.mark.slow)])
def test_resources_are_what_ptxas_reports(target, limit, tmp_path):
    sizes = {"ROWS": 64, "COLUMNS": 128, "maxnreg": limit}
    compilation = compiled(basic.copy_many, *COPY, **sizes, target=target, record="stages")
    registers, stack, stores, static = ptxas_report(compilation, tmp_path)
    resources = compilation.resources
    assert (resources.registers, resources.stack_bytes) == (registers, stack)
    assert static == 0  # Triton asks for all shared memory at the launch.
    assert resources.spills == stores
    assert (resources.spill_loads > 0) == (stores > 0)
    if limit:
        assert resources.registers <= limit
        assert resources.spills > 0


def registers_in_elf(cubin, kernel):
    """EIATTR_REGCOUNT of .nv.info: format 0x04, attribute 0x2f, size 8, then symbol and count."""
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    entry_size, count, _ = struct.unpack_from("<HHH", cubin, 0x3A)
    for number in range(count):
        _, kind, _, _, start, size = struct.unpack_from(
            "<IIQQQQ", cubin, offset + number * entry_size
        )
        section = cubin[start : start + size]
        at = section.find(b"\x04\x2f\x08\x00")
        if kind == 0x70000000 and at >= 0:
            return struct.unpack_from("<II", section, at + 4)[1]
    raise AssertionError("no register count in the cubin")


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("target", AMD, ids=str)
def test_amd_resources_are_what_the_assembler_comments_say(target):
    compilation = compiled(basic.copy_many, *COPY, ROWS=256, COLUMNS=128, target=target)
    text = compilation.stages["amdgcn"].text
    comment = {name: int(value) for name, value in re.findall(r"; (\w+): (\d+)", text)}
    vector = comment.get("TotalNumVgprs", comment["NumVgprs"])
    resources = compilation.resources
    assert (resources.registers, resources.stack_bytes) == (vector, comment["ScratchSize"])
    spilled = int(re.findall(r"\.vgpr_spill_count:\s+(\d+)", text)[0])
    assert (resources.spills > 0) == (spilled > 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "shared"), [("sm_80", 2 * 2 * 128 * 64 * 2), ("gfx942", 2 * 128 * 64 * 2)]
)
def test_shared_memory_is_that_of_the_pipelines_buffers(name, shared):
    """sm_80 pipelines A and B (128x64 fp16 each) through num_stages - 1 = 2 buffers; gfx942 1."""
    made = compiled(basic.matmul, *MATMUL, **BLOCKS, target=name, record="stages")
    assert made.resources.shared_bytes == shared


def test_resources_need_their_report(raised):
    from kernellab.compiler.machine_code import resources

    cubin = compiled(basic.add, *ADD, BLOCK=64, target="sm_80").stages["cubin"].content
    assert isinstance(cubin, bytes)
    error = raised(CompileError, resources.read_nvidia, cubin, "other", 0, match="other")
    raised(CompileError, resources.read_amd, "s_endpgm", 0, match="vgpr_count")


def test_no_target_means_this_machines_gpu_or_sm_90():
    expected = local_target() or DEFAULT_TARGET
    assert compiled(basic.add, *ADD, target=None, BLOCK=64).target == expected
    assert torch.cuda.is_available() or expected == Target("cuda", "90")


def test_several_targets_give_a_dict():
    several = compile(basic.add, *ADD, BLOCK=64, target="sm_80,cuda:90,gfx942")
    assert isinstance(several, dict)
    assert list(several) == ["sm_80", "sm_90", "gfx942"]
    assert [compilation.target.name for compilation in several.values()] == list(several)
    single = compile(basic.add, *ADD, BLOCK=64, target=["sm_80"])
    assert isinstance(single, dict)
    assert list(single) == ["sm_80"]


def test_options_reach_the_backend_and_are_reported():
    compilation = compiled(basic.add, *ADD, BLOCK=1024, target="sm_90", num_warps=8, maxnreg=24)
    assert (compilation.options["num_warps"], compilation.options["maxnreg"]) == (8, 24)
    assert ".maxnreg 24" in compilation.stages["ptx"].text
    assert compilation.options["num_stages"] == 3
    assert '"ttg.num-warps" = 8' in compilation.stages["ttgir"].text


def test_options_and_constants_say_outright_what_a_name_means():
    given = {"constants": {"num_warps": 32}, "options": {"num_warps": 2}}
    compilation = compiled(parameters.option_name, "*fp32", **given)
    assert compilation.options["num_warps"] == 2
    assert "tensor<32x" in compilation.stages["ttir"].text


def test_values_specialize_as_in_a_launch():
    x = torch.zeros(64)
    text = compiled(basic.add, x, x, x, 64, BLOCK=64, target="sm_90").stages["ttir"].text
    assert text.count("tt.divisibility = 16") == 4
    text = compiled(basic.add, x[1:], x, x, 1, BLOCK=64, target="sm_90").stages["ttir"].text
    assert text.count("tt.divisibility = 16") == 2
    assert "%n: i32" not in text


def test_an_autotuned_kernel_takes_its_first_config():
    compilation = compiled(parameters.autotuned, "*fp32", "i32", target="sm_90")
    assert compilation.options["num_warps"] == 2
    assert "tensor<64x" in compilation.stages["ttir"].text
    compilation = compiled(
        parameters.autotuned, "*fp32", "i32", BLOCK=32, num_warps=1, target="sm_90"
    )
    assert compilation.options["num_warps"] == 1
    assert "tensor<32x" in compilation.stages["ttir"].text


def test_heuristics_are_computed_from_the_arguments(messages):
    text = compiled(parameters.heuristic, "*fp32", 100, target="sm_90").stages["ttir"].text
    assert "tensor<128x" in text
    with pytest.raises(ArgumentError) as caught:
        compiled(parameters.heuristic, "*fp32", "i32", target="sm_90")
    assert caught.value.problem == messages
    assert caught.value.advice == messages
    above = triton.heuristics({"n": lambda given: given["BLOCK"]})(parameters.autotuned)
    with pytest.raises(ArgumentError) as caught:
        compiled(above, "*fp32", target="sm_90")
    assert "below @triton.autotune" in caught.value.advice


def test_the_same_kernel_from_another_file_keeps_its_own_file_name(tmp_path):
    """Triton's cache knows no file: two cells with the same text must not share locations."""
    text = inspect.getsource(basic)
    for name in ("first.py", "second.py"):
        path = tmp_path / name
        path.write_text(text)
        scope = {"__name__": name}
        exec(builtins.compile(text, str(path), "exec"), scope)  # noqa: S102
        compilation = compiled(scope["add"], *ADD, BLOCK=64, target="sm_90")
        files = set(re.findall(r'loc\("([^"]+\.py)"', compilation.stages["ttir"].text))
        assert files == {str(path)}


def test_recordings_that_there_are_not(raised):
    error = raised(OptionError, compile, basic.add, *ADD, BLOCK=64, record="pases")


def test_a_function_that_is_no_kernel(raised):
    raised(ArgumentError, compile, machine_code, "*fp32")


@pytest.mark.parametrize(
    ("name", "meant"), [("TTGIR", "ttgir"), ("ptxx", "ptx"), (" sass", "sass")]
)
def test_a_stage_that_is_not_there_is_told_with_the_nearest(name, meant, raised):
    stages = compiled(basic.add, *ADD, target="sm_90", BLOCK=64).stages
    caught = raised(KeyError, lambda: stages[name])
    assert isinstance(caught, NoSuchStage)
    assert repr(name) in caught.problem
    assert repr(meant) in caught.advice
