"""Every operation that Triton's front end can write is lowered, or has a reason why not."""

import importlib
import re
from pathlib import Path

import triton

from kernellab.interpreter.codegen.emitter import RULES
from kernellab.ir import mlir, tt, ttg

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
    missing = {op.name for op in [*WRITTEN.values(), *BARRIERS] if op not in RULES}
    assert missing == set()
