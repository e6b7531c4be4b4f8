"""Every operation that Triton's front end can write is lowered, or has a reason why not."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import triton

from kernellab.interpreter.codegen.registry import RULES
from kernellab.ir import arith, cf, gpu, llvm, math, scf, tt, ttg, ub

WRITERS = [
    "language.semantic",
    "language.core",
    "language.standard",
    "language.math",
    "language.random",
    "compiler.code_generator",
]
"""Modules of Triton that write operations, by `builder.create_...(...)`."""

WRITTEN = {
    "create_add": arith.AddIOp, "create_addptr": tt.AddPtrOp, "create_and": arith.AndIOp,
    "create_ashr": arith.ShRSIOp, "create_assert": tt.AssertOp, "create_assume": llvm.AssumeOp,
    "create_approx_divf": tt.ApproxDivFOp, "create_atomic_load": tt.AtomicLoadOp,
    "create_atomic_poll": tt.AtomicPollOp, "create_atomic_store": tt.AtomicStoreOp,
    "create_fneg": arith.NegFOp, "create_grid_dependency_wait": tt.GridDependencyWaitOp,
    "create_grid_dependency_launch_dependents": tt.GridDependencyLaunchDependentsOp,
    "create_atomic_cas": tt.AtomicCASOp, "create_atomic_rmw": tt.AtomicRMWOp,
    "create_bitcast": tt.BitcastOp, "create_branch": cf.BranchOp,
    "create_broadcast": tt.BroadcastOp, "create_cat": tt.CatOp, "create_ceil": math.CeilOp,
    "create_clampf": tt.ClampFOp, "create_cond_branch": cf.ConditionalBranchOp,
    "create_condition_op": scf.ConditionOp, "create_cos": math.CosOp,
    "create_descriptor_gather": tt.DescriptorGatherOp,
    "create_descriptor_load": tt.DescriptorLoadOp,
    "create_descriptor_reduce": tt.DescriptorReduceOp,
    "create_descriptor_scatter": tt.DescriptorScatterOp,
    "create_descriptor_store": tt.DescriptorStoreOp, "create_dot": tt.DotOp,
    "create_dot_scaled": tt.DotScaledOp, "create_erf": math.ErfOp, "create_exp": math.ExpOp,
    "create_exp2": math.Exp2Op, "create_expand_dims": tt.ExpandDimsOp,
    "create_extern_elementwise": tt.ExternElementwiseOp, "create_fabs": math.AbsFOp,
    "create_fadd": arith.AddFOp, "create_fcmp": arith.CmpFOp, "create_fdiv": arith.DivFOp,
    "create_floor": math.FloorOp, "create_fma": math.FmaOp, "create_fmul": arith.MulFOp,
    "create_for_op": scf.ForOp, "create_fp_ext": arith.ExtFOp, "create_fp_to_fp": tt.FpToFpOp,
    "create_fp_to_si": arith.FPToSIOp, "create_fp_to_ui": arith.FPToUIOp,
    "create_fp_trunc": arith.TruncFOp, "create_frem": arith.RemFOp, "create_fsub": arith.SubFOp,
    "create_gather": tt.GatherOp, "create_get_num_programs": tt.GetNumProgramsOp,
    "create_get_program_id": tt.GetProgramIdOp, "create_histogram": tt.HistogramOp,
    "create_iabs": math.AbsIOp, "create_icmp": arith.CmpIOp, "create_if_op": scf.IfOp,
    "create_inline_asm": tt.ElementwiseInlineAsmOp, "create_int_cast": arith.ExtSIOp,
    "create_int_to_ptr": tt.IntToPtrOp, "create_join": tt.JoinOp, "create_load": tt.LoadOp,
    "create_log": math.LogOp, "create_log2": math.Log2Op, "create_lshr": arith.ShRUIOp,
    "create_make_range": tt.MakeRangeOp, "create_make_tensor_descriptor": tt.MakeTensorDescOp,
    "create_map_elementwise": tt.MapElementwiseOp,
    "create_map_elementwise_ret": tt.MapElementwiseReturnOp, "create_masked_load": tt.LoadOp,
    "create_masked_store": tt.StoreOp, "create_maximumf": arith.MaximumFOp,
    "create_maxnumf": arith.MaxNumFOp, "create_maxsi": arith.MaxSIOp,
    "create_maxui": arith.MaxUIOp, "create_minimumf": arith.MinimumFOp,
    "create_minnumf": arith.MinNumFOp, "create_minsi": arith.MinSIOp,
    "create_minui": arith.MinUIOp, "create_mul": arith.MulIOp, "create_or": arith.OrIOp,
    "create_poison": ub.PoisonOp, "create_precise_divf": tt.PreciseDivFOp,
    "create_precise_sqrt": tt.PreciseSqrtOp, "create_print": tt.PrintOp,
    "create_ptr_to_int": tt.PtrToIntOp, "create_reduce": tt.ReduceOp,
    "create_reduce_ret": tt.ReduceReturnOp, "create_reshape": tt.ReshapeOp,
    "create_rsqrt": math.RsqrtOp, "create_scan": tt.ScanOp, "create_scan_ret": tt.ScanReturnOp,
    "create_sdiv": arith.DivSIOp, "create_select": arith.SelectOp, "create_shl": arith.ShLIOp,
    "create_si_to_fp": arith.SIToFPOp, "create_sin": math.SinOp, "create_splat": tt.SplatOp,
    "create_split": tt.SplitOp, "create_sqrt": math.SqrtOp, "create_srem": arith.RemSIOp,
    "create_store": tt.StoreOp, "create_sub": arith.SubIOp, "create_trans": tt.TransOp,
    "create_udiv": arith.DivUIOp, "create_ui_to_fp": arith.UIToFPOp,
    "create_umulhi": tt.MulhiUIOp, "create_unsplat": tt.UnsplatOp, "create_urem": arith.RemUIOp,
    "create_while_op": scf.WhileOp, "create_xor": arith.XOrIOp, "create_yield_op": scf.YieldOp,
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

BARRIERS = (gpu.BarrierOp, ttg.BarrierOp)
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
