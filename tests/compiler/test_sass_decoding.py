"""Decoded machine code: control codes, registers by nvdisasm, every opcode's class, AMD."""

import collections
import re
from pathlib import Path

import pytest

from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.instructions import (
    OPCODES,
    access_width,
    category_of,
    control_codes,
    instruction_count,
    padding_lines,
    padding_of,
    registers_of,
    split_operands,
)
from kernellab.compiler.records import Instruction
from kernellab.compiler.targets import SUPPORTED_TARGETS
from tests.compiler.life_ranges import life_ranges
from tests.corpus import matmuls
from tests.corpus.entries import OLDEST
from tests.corpus.loader import cases
from tests.support.compiled import of_corpus

NVIDIA = [target.name for target in SUPPORTED_TARGETS if target.backend == "cuda"]


def compiled(name: str, target: str) -> Compilation:
    if target == "sm_103" and OLDEST:
        pytest.skip("the nvdisasm in Triton 3.6 cannot decode sm_103")
    return of_corpus(name, target, "stages")


def test_fields_of_a_known_encoding():
    """The example of Jia et al., section 2.1, in today's field order: a stall of 4 cycles."""
    codes = control_codes(0x000FC800_00000000)
    assert (codes.stall_cycles, codes.yields) == (4, True)
    assert (codes.write_barrier, codes.read_barrier) == (None, None)
    assert (codes.waits_for, codes.reuse) == ((), ())
    codes = control_codes(0x000EA200_00000000)  # B------:R-:W2:-:S01 in CuAssembler's notation.
    assert (codes.stall_cycles, codes.yields) == (1, False)
    assert (codes.write_barrier, codes.read_barrier) == (2, None)
    codes = control_codes(0x004FE400_00000000)  # B--2---:R-:W-:Y:S02
    assert (codes.stall_cycles, codes.yields, codes.waits_for) == (2, False, (2,))
    assert control_codes(0x040FE200_00000000).reuse == (0,)


@pytest.mark.parametrize("target", NVIDIA)
def test_reuse_is_what_nvdisasm_marks(target):
    """nvdisasm prints `.reuse` behind an operand, from the same bits."""
    marked = 0
    for one in compiled("softmax", target).instructions:
        assert one.control is not None
        shown = sum(operand.count(".reuse") for operand in one.operands)
        assert len(one.control.reuse) == shown, str(one)
        marked += shown
    assert marked > 0


def until_branch(instructions: tuple[Instruction, ...], start: int) -> list[Instruction]:
    """The instructions that surely run after the one at `start`."""
    later = enumerate(instructions[start + 1 :], start + 2)
    end = next((n for n, one in later if one.category in ("branch", "barrier")), None)
    return list(instructions[start + 1 : end])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", NVIDIA)
@pytest.mark.parametrize("name", ["softmax", "matmul_small"])
def test_readers_wait_for_the_scoreboard_that_a_load_set(name, target):
    """A load takes an unknown time, so its reader, or an instruction before it, must wait."""
    instructions = compiled(name, target).instructions
    checked = 0
    for at, load in enumerate(instructions):
        assert load.control is not None
        if (
            load.category not in ("global load", "shared load", "special function")
            or not load.writes
        ):
            continue
        if load.control.write_barrier is None:
            # A later access of the same unit, which works in order, sets the scoreboard for both.
            continue
        waited = False
        for one in until_branch(instructions, at):
            assert one.control is not None
            waited |= load.control.write_barrier in one.control.waits_for
            if set(load.writes) & set(one.reads):
                assert waited, f"{one} reads what {load} has not loaded yet"
                checked += 1
            if set(load.writes) & set(one.writes):
                break
    assert checked > 5


@pytest.mark.parametrize("target", NVIDIA)
def test_fixed_latencies_are_waited_for_by_stalls(target):
    """Results take at least 4 cycles since Volta (Jia et al. 2018, 2019), without a scoreboard."""
    instructions = compiled("softmax", target).instructions
    distances = []
    for at, one in enumerate(instructions):
        if not one.opcode.startswith(("FADD", "FMUL", "IADD3", "LOP3", "ISETP")) or not one.writes:
            continue
        assert one.control is not None
        assert one.control.write_barrier is None, str(one)
        cycles = one.control.stall_cycles
        for reader in until_branch(instructions, at):
            assert reader.control is not None
            if set(one.writes) & set(reader.reads):
                distances.append(cycles)
                break
            if set(one.writes) & set(reader.writes):
                break
            cycles += reader.control.stall_cycles
    assert len(distances) > 10
    # A predicate is there later than a register, and a neighbor may take it earlier through its
    # own bypass: 4 is the least.
    assert min(distances) >= 4
    assert collections.Counter(distances)[4] > 0


def is_comparable(one):
    """Whether text alone can say what nvdisasm says.

    Calls are what the callee does. P2R: nvdisasm does not count what a mask selects. LDGSTS: it
    counts the predicate that guards the copy as written. Global accesses of sm_80 to 89: the pair
    with the memory descriptor is in the encoding, not in the text.
    """
    return not one.opcode.startswith(("CALL", "P2R", "LDGSTS", "RET"))


def without_hidden_descriptor(target, opcode, names):
    if target in ("sm_80", "sm_86", "sm_89") and opcode.startswith(("LDG", "STG", "RED", "ATOMG")):
        return {name for name in names if not name.startswith("UR")}
    return set(names)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("matmul", "sm_90"), ("softmax", "sm_75"), ("matmul", "sm_80"), ("atomics", "sm_86"),
        ("matmul_tma", "sm_90"), ("matmul", "sm_100"), ("matmul_tma", "sm_100"),
        ("layer_norm_backward", "sm_100"), ("cumsum", "sm_120"),
    ],
)  # fmt: skip
def test_registers_are_those_of_nvdisasm(name, target, tmp_path):
    compared = 0
    # To the nvdisasm of Triton 3.6, UR63 is the zero register everywhere;
    # from sm_100 on that is UR255.
    unseen = {"UR63"} if OLDEST and target == "sm_100" else set()
    for one in life_ranges(compiled(name, target).stages["ptx"].text, tmp_path):
        if is_comparable(one):
            reads, writes = registers_of(one.opcode, split_operands(one.operands), one.predicate)
            what = f"{one.predicate} {one.opcode} {one.operands}"
            expected = without_hidden_descriptor(target, one.opcode, one.reads)
            assert without_hidden_descriptor(target, one.opcode, reads) - unseen == expected, what
            assert set(writes) - unseen == one.writes, what
            compared += 1
    assert compared > 80


def test_operands_are_split_outside_of_brackets():
    assert split_operands("R8, R3, PT            ?trans1") == ("R8", "R3", "PT")
    assert split_operands("R4, desc[UR4][R2.64], !P0") == ("R4", "desc[UR4][R2.64]", "!P0")
    assert split_operands('R2 -0x180   (*"BRANCH_TARGETS .L_x_46,.L_x_47"*)') == ("R2 -0x180",)
    assert split_operands("") == ()


@pytest.mark.parametrize(
    ("opcode", "category", "width"),
    [
        ("LDG.E.128", "global load", 16), ("LDG.E.U8", "global load", 1),
        ("STG.E.64.SYS", "global store", 8), ("STG.E", "global store", 4),
        ("ATOMG.E.ADD.F32.FTZ.RN.STRONG.GPU", "global atomic", 4),
        ("RED.E.ADD.STRONG.GPU", "global atomic", 4), ("LDS.U.128", "shared load", 16),
        ("LDSM.16.M88.4", "shared load", 16), ("LDSM.16.MT88.2", "shared load", 8),
        ("STSM.16.M88", "shared store", 4), ("STS.U16", "shared store", 2),
        ("ATOMS.ADD", "shared atomic", 4), ("LDL.LU.64", "local load", 8),
        ("STL", "local store", 4), ("LDC.64", "constant load", 8),
        ("LDTM.x32", "tensor memory load", 128), ("LDTM.16dp256bit.x4", "tensor memory load", 64),
        ("STTM.16dp32bit_t0_t15.x32", "tensor memory store", 128),
        ("LDGSTS.E.BYPASS.128", "async copy", 16), ("UTMALDG.2D", "tma", None),
        ("HMMA.16816.F32", "matrix", None), ("HGMMA.64x64x16.F32", "matrix", None),
        ("UTCHMMA", "matrix", None), ("BAR.SYNC.DEFER_BLOCKING", "barrier", None),
        ("MEMBAR.ALL.CTA", "fence", None), ("BRA.U", "branch", None),
        ("IMAD.WIDE.U32", "integer", None), ("FFMA", "float", None),
        ("F2FP.BF16.F32.PACK_AB", "conversion", None), ("MUFU.EX2", "special function", None),
        ("ISETP.GE.AND", "predicate", None), ("SHFL.BFLY", "lanes", None),
        ("UIADD3", "uniform", None), ("S2R", "move", None),
        ("global_load_dwordx4", "global load", 16), ("buffer_store_short", "global store", 2),
        ("global_store_b16", "global store", 2), ("global_atomic_add_f32", "global atomic", 4),
        ("global_atomic_cmpswap_x2", "global atomic", 8), ("ds_read_b64_tr_b16", "shared load", 8),
        ("ds_read2st64_b64", "shared load", 16), ("ds_write_b16_d16_hi", "shared store", 2),
        ("ds_bpermute_b32", "lanes", None), ("scratch_load_b64", "local load", 8),
        ("s_load_dwordx8", "constant load", 32), ("v_mfma_f32_32x32x8_f16", "matrix", None),
        ("v_wmma_f32_16x16x16_f16", "matrix", None), ("v_dual_fmac_f32", "float", None),
        ("v_add_f32_dpp", "lanes", None), ("v_add3_u32", "integer", None),
        ("v_cvt_f16_f32_e32", "conversion", None), ("v_exp_f32_e32", "special function", None),
        ("v_cmp_gt_i32_e32", "predicate", None), ("s_barrier", "barrier", None),
        ("s_waitcnt", "wait", None), ("s_and_saveexec_b64", "uniform", None),
        ("s_cbranch_execz", "branch", None), ("v_nonesuch", "integer", None),
        ("NONESUCH.E", "other", None), ("nonesuch", "other", None),
    ],
)  # fmt: skip
def test_class_and_width(opcode, category, width):
    assert category_of(opcode) == category
    assert category in OPCODES.classes
    assert access_width(opcode) == width


def test_the_tables_of_opcodes_name_only_known_classes():
    used = {category for _, category in OPCODES.amd} | set(OPCODES.nvidia)
    assert used | {"other"} == set(OPCODES.classes)


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("target", [target.name for target in SUPPORTED_TARGETS])
def test_no_opcode_of_the_corpus_is_unknown(target):
    unknown: dict[str, str] = {}
    for case, chosen in cases():
        if chosen.name == target:
            for one in compiled(case.name, target).instructions:
                if one.category == "other":
                    unknown[one.opcode] = case.name
    assert unknown == {}


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_100"])
def test_instructions_are_the_lines_of_the_text(target):
    compilation = compiled("softmax", target)
    lines = compilation.stages["sass"].text.splitlines()
    printed = [
        number for number, line in enumerate(lines, start=1) if re.match(r"\s+/\*[0-9a-f]{4}", line)
    ]
    assert [one.line for one in compilation.instructions] == printed
    for at, one in enumerate(compilation.instructions):
        assert (one.address, one.function) == (16 * at, "softmax")
        assert re.search(rf"\s{re.escape(one.opcode)}[\s;]", lines[one.line - 1])
        words = lines[one.line - 1].split("*/", 1)[1].split()
        assert " ".join(words).strip(" ;").startswith(str(one))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", ["softmax", "ragged_scale"])
def test_padding_is_what_no_warp_can_reach(name, target):
    compilation = compiled(name, target)
    padding = padding_of(compilation)
    code = [one for one in compilation.instructions if one.line not in padding]
    assert {one.opcode for one in compilation.instructions if one.line in padding} == {"BRA", "NOP"}
    assert max(one.line for one in code) < min(padding)
    # What stands before the padding lets no warp run on into it.
    assert code[-1].opcode.partition(".")[0] in ("EXIT", "RET", "BRA", "WARPSYNC")
    assert code[-1].predicate == ""
    assert instruction_count(compilation.stages["sass"].text) == len(code)


def test_instructions_without_padding_are_all_counted():
    body = "\t.section .text.k\n.text.k:\n  /*0000*/  NOP ;\n.L_x_0:\n  /*0010*/  BRA `(.L_x_0) ;\n"
    assert padding_lines(body + "  /*0020*/  EXIT ;\n") == frozenset()
    assert padding_lines(body) == {5}, "the NOP before the loop is the kernel's"
    assert padding_lines(body + "  /*0020*/  NOP ;\n.text.f:\n  /*0000*/  RET ;\n") == {5, 6}


def test_a_function_that_stays_a_call_has_its_own_name():
    names = {one.function for one in compiled("ragged_scale", "sm_90").instructions}
    assert "ragged_scale" in names
    assert any("first_of_row" in name for name in names)


def test_amd_instructions_carry_lines_and_classes():
    compilation = compiled("matmul", "gfx942")
    instructions = compilation.instructions
    lines = compilation.stages["amdgcn"].text.splitlines()
    words = [line.split()[0] for line in lines if line.startswith("\tv_mfma")]
    assert [one.opcode for one in instructions if one.category == "matrix"] == words
    assert all(one.control is None for one in instructions)
    assert all(one.opcode in lines[one.line - 1] for one in instructions)
    source = Path(matmuls.__file__).read_text().splitlines()
    dot = source.index("        accumulator = tl.dot(a, b, accumulator)") + 1
    places = [one.source for one in instructions if one.category == "matrix"]
    assert {place.line for place in places if place} == {dot}


def test_a_compilation_without_machine_code_says_so(raised):
    compilation = Compilation(
        kernel="add",
        target=SUPPORTED_TARGETS[0],
        specialization=compiled("softmax", "sm_90").specialization,
        options={},
        stages=type(compiled("softmax", "sm_90").stages)({}),
    )
    raised(ValueError, lambda: compilation.instructions, match="add")
    with pytest.raises(ValueError, match="not known"):
        compilation.occupancy()
