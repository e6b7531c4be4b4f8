"""Code of other languages, prints, the emulated target, and the error that names the rest."""

import importlib
import re
import time
import traceback
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.target_info import cuda_capability_geq, is_cuda
from triton.tools.tensor_descriptor import TensorDescriptor
from xdsl.ir import Operation

import kernellab
from kernellab import TileKernel
from kernellab.compiler.targets import parse_target
from kernellab.errors import CompileError, UnsupportedOperation
from kernellab.interpreter import foreign_code
from kernellab.interpreter.codegen.emitter import RULES
from kernellab.ir import mlir, tt, ttg
from tests.kernels.interp import control, foreign, pointers, unsupported
from tests.support.source_lines import marked_line, position_of


def test_a_users_own_assembly(monkeypatch) -> None:
    monkeypatch.setattr(foreign_code, "_ASSEMBLY", {})
    x, out = torch.arange(8.0), torch.zeros(2, 8)
    with pytest.raises(UnsupportedOperation, match="inline_assembly"):
        kernellab.run(foreign.of_the_users_own, (1,), x, out, N=8)

    @kernellab.inline_assembly("wonder.f32\n $0, $1, $2;   // no one knows")
    def wonder(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x - 1, x + 1

    kernellab.run(foreign.of_the_users_own, (1,), x, out, N=8)
    assert torch.equal(out, torch.stack([x - 1, x + 1]))


def test_a_users_own_device_function(monkeypatch) -> None:
    monkeypatch.setattr(foreign_code, "_SYMBOLS", {})
    x = torch.ones(16)
    with pytest.raises(UnsupportedOperation, match="device_function"):
        kernellab.run(foreign.of_the_users_own_library, (1,), x, N=8)
    kernellab.device_function("__mine_thrice")(lambda x: 3 * x)
    kernellab.run(foreign.of_the_users_own_library, (1,), x, N=8)
    assert x.tolist() == [3.0] * 8 + [1.0] * 8


def test_time_passes() -> None:
    out = torch.zeros(2, dtype=torch.int64)
    before = time.time_ns()
    kernellab.run(foreign.timed, (1,), out)
    assert before <= out[1].item() <= time.time_ns()
    assert out[0].item() >= 0


NOT_LOWERED = {
    # Triton 3.7's front end writes none of it; the check for divisions by zero knows it.
    "arith.ceildivui",
    # The function around everything.
    "tt.func",
}


def operations(module: Any) -> set[type[Operation]]:
    found = (member for member in vars(module).values() if isinstance(member, type))
    return {m for m in found if issubclass(m, Operation) and "name" in vars(m)}


def test_operations_with_a_class_and_no_lowering() -> None:
    """A change of this list is a change of what the interpreter promises."""
    known = operations(mlir) | operations(tt)
    assert len(known) > 120
    assert {op.name for op in known - set(RULES)} == NOT_LOWERED


KERNELS: list[tuple[Any, str]] = [
    (unsupported.inline_assembly, "the PTX instruction 'wonder.b32'"),
    (unsupported.device_library, "the device function '__mine_twice'"),
    (unsupported.program_of_element, "tl.program_id in a function of elements"),
    (unsupported.packed_too_high, "tl.map_elementwise with pack=4"),
    (unsupported.waiting_element, "a loop that waits for other programs"),
]


@pytest.mark.parametrize(("kernel", "what"), KERNELS, ids=[what for _, what in KERNELS])
def test_the_error_names_the_operation_and_the_line(kernel, what) -> None:
    x = torch.ones(64)
    with pytest.raises(UnsupportedOperation) as caught:
        kernellab.run(kernel, (1,), x)
    error = caught.value
    assert what in error.problem
    assert repr(kernel.__name__) in error.problem
    position = position_of(error)
    assert position.file == unsupported.__file__
    assert position.line == marked_line(unsupported, f"UNSUPPORTED: {what}")
    assert "kernellab.compile" in error.advice
    assert (x == 1).all()
    assert traceback.format_exception(error)


def test_device_print(capsys) -> None:
    """Every program that takes part, in order; unsigned and hexadecimal numbers as such."""
    x = torch.arange(12).to(torch.uint32)
    x[3] = 2**32 - 1
    kernellab.run(control.printing, (3,), x, 7)
    assert capsys.readouterr().out.splitlines() == [
        "pid (0, 0, 0) x: [         0          1          2 4294967295], 7",
        "pid (2, 0, 0) x: [ 8  9 10 11], 7",
        "pid (0, 0, 0) bits: 0x00000000",
        "pid (1, 0, 0) bits: 0x00000004",
        "pid (2, 0, 0) bits: 0x00000008",
    ]


def test_a_pointer_is_printed_as_its_address(capsys) -> None:
    x = torch.zeros(3)
    kernellab.run(pointers.printing, (1,), x)
    first, second = (f"0x{x.data_ptr() + offset:016x}" for offset in (4, 8))
    assert capsys.readouterr().out == f"pid (0, 0, 0) at: [{first} {second}], 7\n"


# The target that is emulated is the one that the kernel hears of


@triton.jit
def which_gpu(out_ptr):
    tl.store(out_ptr, is_cuda())
    tl.store(out_ptr + 1, cuda_capability_geq(9, 0))


@pytest.mark.parametrize(
    ("target", "answers"), [("sm_90", [1, 1]), ("sm_80", [1, 0]), ("gfx942", [0, 0])]
)
def test_the_kernel_asks_which_gpu_there_is(target, answers) -> None:
    out = torch.full((2,), -1, dtype=torch.int32)
    kernel = TileKernel(which_gpu.fn)
    kernel.target = parse_target(target)
    kernel[(1,)](out)
    assert out.tolist() == answers


@triton.jit
def doubled(source, target, M: tl.constexpr):
    target.store([0, 0], source.load([0, 0]) * 2)


def test_a_descriptor_of_a_tensor_under_another_type() -> None:
    x, out = torch.arange(32, dtype=torch.int32).view(4, 8), torch.zeros(4, 8, dtype=torch.int32)
    unsigned = triton.reinterpret(x, tl.uint32)
    source = TensorDescriptor(unsigned, x.shape, x.stride(), [4, 8])
    kernellab.run(doubled, (1,), source, TensorDescriptor.from_tensor(out, [4, 8]), M=4)
    assert torch.equal(out, x * 2)


@triton.jit
def narrowed(x_ptr, out_ptr, back_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    narrow = tl.load(x_ptr + lanes).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + lanes, narrow)
    tl.store(back_ptr + lanes, narrow.to(tl.float32))


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_amds_own_eight_bit_floats(name) -> None:
    """To nearest even, the largest number beyond the range; NVIDIA's GPUs have no such type."""
    dtype, kind = getattr(torch, name), np.dtype(getattr(ml_dtypes, name))
    largest = float(ml_dtypes.finfo(kind).max)
    rng = np.random.default_rng(4)
    x = np.concatenate(
        [
            rng.standard_normal(240) * 2.0 ** rng.integers(-8, 6, 240),
            [0, -0.0, 1e9, -1e9, np.inf, np.nan, 240, 0.4375, *range(8)],
        ]
    ).astype(np.float32)
    out, back = torch.zeros(256, dtype=dtype), torch.zeros(256)
    kernel = TileKernel(narrowed.fn)
    kernel.target = parse_target("gfx942")
    kernel[(1,)](torch.from_numpy(x), out, back, N=256)
    want = np.clip(x, -largest, largest).astype(kind)
    np.testing.assert_array_equal(back.numpy(), want.astype(np.float32))
    np.testing.assert_array_equal(out.view(torch.uint8).numpy(), want.view(np.uint8))
    kernel.target = parse_target("sm_90")
    with pytest.raises(CompileError, match="not supported in this architecture"):
        kernel[(1,)](torch.from_numpy(x), out, back, N=256)


# Every operation that Triton's front end can write is lowered, or has a reason why not


WRITERS = [
    "language.semantic", "language.core", "language.standard", "language.math", "language.random",
    "compiler.code_generator",
]  # fmt: skip
"""Modules of Triton that write operations, by `builder.create_...(...)`."""

WRITTEN = {
    "create_add": mlir.AddIOp, "create_addptr": tt.AddPtrOp, "create_and": mlir.AndIOp,
    "create_ashr": mlir.ShRSIOp, "create_assert": tt.AssertOp, "create_assume": mlir.AssumeOp,
    "create_approx_divf": tt.ApproxDivFOp, "create_atomic_load": tt.AtomicLoadOp,
    "create_atomic_poll": tt.AtomicPollOp, "create_atomic_store": tt.AtomicStoreOp,
    "create_fneg": mlir.NegFOp, "create_grid_dependency_wait": tt.GridDependencyWaitOp,
    "create_grid_dependency_launch_dependents": tt.GridDependencyLaunchDependentsOp,
    "create_atomic_cas": tt.AtomicCASOp, "create_atomic_rmw": tt.AtomicRMWOp,
    "create_bitcast": tt.BitcastOp, "create_branch": mlir.BranchOp,
    "create_broadcast": tt.BroadcastOp, "create_cat": tt.CatOp, "create_ceil": mlir.CeilOp,
    "create_clampf": tt.ClampFOp, "create_cond_branch": mlir.ConditionalBranchOp,
    "create_condition_op": mlir.ConditionOp, "create_cos": mlir.CosOp,
    "create_descriptor_gather": tt.DescriptorGatherOp,
    "create_descriptor_load": tt.DescriptorLoadOp,
    "create_descriptor_reduce": tt.DescriptorReduceOp,
    "create_descriptor_scatter": tt.DescriptorScatterOp,
    "create_descriptor_store": tt.DescriptorStoreOp, "create_dot": tt.DotOp,
    "create_dot_scaled": tt.DotScaledOp, "create_erf": mlir.ErfOp, "create_exp": mlir.ExpOp,
    "create_exp2": mlir.Exp2Op, "create_expand_dims": tt.ExpandDimsOp,
    "create_extern_elementwise": tt.ExternElementwiseOp, "create_fabs": mlir.AbsFOp,
    "create_fadd": mlir.AddFOp, "create_fcmp": mlir.CmpFOp, "create_fdiv": mlir.DivFOp,
    "create_floor": mlir.FloorOp, "create_fma": mlir.FmaOp, "create_fmul": mlir.MulFOp,
    "create_for_op": mlir.ForOp, "create_fp_ext": mlir.ExtFOp, "create_fp_to_fp": tt.FpToFpOp,
    "create_fp_to_si": mlir.FPToSIOp, "create_fp_to_ui": mlir.FPToUIOp,
    "create_fp_trunc": mlir.TruncFOp, "create_frem": mlir.RemFOp, "create_fsub": mlir.SubFOp,
    "create_gather": tt.GatherOp, "create_get_num_programs": tt.GetNumProgramsOp,
    "create_get_program_id": tt.GetProgramIdOp, "create_histogram": tt.HistogramOp,
    "create_iabs": mlir.AbsIOp, "create_icmp": mlir.CmpIOp, "create_if_op": mlir.IfOp,
    "create_inline_asm": tt.ElementwiseInlineAsmOp, "create_int_cast": mlir.ExtSIOp,
    "create_int_to_ptr": tt.IntToPtrOp, "create_join": tt.JoinOp, "create_load": tt.LoadOp,
    "create_log": mlir.LogOp, "create_log2": mlir.Log2Op, "create_lshr": mlir.ShRUIOp,
    "create_make_range": tt.MakeRangeOp, "create_make_tensor_descriptor": tt.MakeTensorDescOp,
    "create_map_elementwise": tt.MapElementwiseOp,
    "create_map_elementwise_ret": tt.MapElementwiseReturnOp, "create_masked_load": tt.LoadOp,
    "create_masked_store": tt.StoreOp, "create_maximumf": mlir.MaximumFOp,
    "create_maxnumf": mlir.MaxNumFOp, "create_maxsi": mlir.MaxSIOp,
    "create_maxui": mlir.MaxUIOp, "create_minimumf": mlir.MinimumFOp,
    "create_minnumf": mlir.MinNumFOp, "create_minsi": mlir.MinSIOp,
    "create_minui": mlir.MinUIOp, "create_mul": mlir.MulIOp, "create_or": mlir.OrIOp,
    "create_poison": mlir.PoisonOp, "create_precise_divf": tt.PreciseDivFOp,
    "create_precise_sqrt": tt.PreciseSqrtOp, "create_print": tt.PrintOp,
    "create_ptr_to_int": tt.PtrToIntOp, "create_reduce": tt.ReduceOp,
    "create_reduce_ret": tt.ReduceReturnOp, "create_reshape": tt.ReshapeOp,
    "create_rsqrt": mlir.RsqrtOp, "create_scan": tt.ScanOp, "create_scan_ret": tt.ScanReturnOp,
    "create_sdiv": mlir.DivSIOp, "create_select": mlir.SelectOp, "create_shl": mlir.ShLIOp,
    "create_si_to_fp": mlir.SIToFPOp, "create_sin": mlir.SinOp, "create_splat": tt.SplatOp,
    "create_split": tt.SplitOp, "create_sqrt": mlir.SqrtOp, "create_srem": mlir.RemSIOp,
    "create_store": tt.StoreOp, "create_sub": mlir.SubIOp, "create_trans": tt.TransOp,
    "create_udiv": mlir.DivUIOp, "create_ui_to_fp": mlir.UIToFPOp,
    "create_umulhi": tt.MulhiUIOp, "create_unsplat": tt.UnsplatOp, "create_urem": mlir.RemUIOp,
    "create_while_op": mlir.WhileOp, "create_xor": mlir.XOrIOp, "create_yield_op": mlir.YieldOp,
}  # fmt: skip
"""What the front end calls -> the operation that it writes."""

NO_OPERATION = {
    # Blocks, functions, locations, types.
    "create_block", "create_block_with_parent", "create_loc", "create_module", "create_name_loc",
    "create_tensor_descriptor_type",
    # Triton's pass rewrite-tensor-pointer replaces block pointers before anything runs.
    "create_make_block_ptr", "create_advance", "create_tensor_pointer_load",
    "create_tensor_pointer_store",
}  # fmt: skip

BARRIERS = (mlir.BarrierOp, ttg.BarrierOp)
"""`create_barrier`: one up to Triton 3.6, the other from 3.7 on."""


def test_everything_that_the_front_end_writes_is_lowered() -> None:
    called = set()
    for name in WRITERS:
        source = importlib.import_module(f"triton.{name}").__file__
        assert source is not None
        called |= set(re.findall(r"\.(create_[a-z0-9_]+)", Path(source).read_text()))
    assert len(called) > 100, triton.__version__
    assert called - set(WRITTEN) - NO_OPERATION - {"create_barrier"} == set()
    assert {op.name for op in [*WRITTEN.values(), *BARRIERS] if op not in RULES} == set()
