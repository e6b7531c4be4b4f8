"""Every case against its reference; however many programs run together;
and that the cases reach every operation.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdsl.dialects import builtin
from xdsl.ir import Operation

from kernellab import triton_api
from kernellab.compiler.specialization.binding import bind
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.interpreter.codegen.calls import InlinedCallOp
from kernellab.interpreter.codegen.registry import RULES
from kernellab.interpreter.execution import launcher
from kernellab.interpreter.execution.grid import Grid, Programs, batches
from kernellab.ir import arith, cf, gpu, llvm, math, scf, tt, ttg, ub
from kernellab.ir.reader import read_module
from kernellab.ir.writer import write_module
from tests.cases.case import Case
from tests.cases.every import CASES, one_of_each_kernel
from tests.support import versions

BY_NAME = {case.name: case for case in CASES}
IN_STEP = [case for case in CASES if case.grid != (1,)]


def test_names_differ() -> None:
    assert len(BY_NAME) == len(CASES)


@pytest.mark.filterwarnings("error::RuntimeWarning", "error:The given NumPy array is not writable")
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("name", BY_NAME)
def test_case(name: str) -> None:
    case = BY_NAME[name]
    case.check(case.launch())


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("size", [1, 2])
def test_however_many_programs_run_together(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One program a batch, and batches of two with one left over, give what all together give."""
    sizes = []

    def few(grid: Grid, given: int, order: str, seed: int) -> Iterator[Programs]:
        sizes.append(given)
        return batches(grid, min(given, size), order, seed)

    monkeypatch.setattr(launcher, "batches", few)
    for case in IN_STEP:
        case.check(case.launch())
    assert len(sizes) == len(IN_STEP)
    assert max(sizes) > 2


# What the cases reach

MODULES = (arith, cf, gpu, llvm, math, scf, tt, ttg, ub)
TRITON_NEVER_MAKES = {
    arith.BitcastOp, arith.CeilDivSIOp, arith.FloorDivSIOp, arith.IndexCastOp, math.Atan2Op,
    math.CopySignOp, math.ExpM1Op, math.IsInfOp, math.IsNaNOp, math.Log10Op, math.Log1pOp,
    math.PowFOp, math.RoundEvenOp, math.TanOp, math.TanhOp, math.TruncOp, ub.PoisonOp,
}  # fmt: skip
"""Lowered, though Triton's front end never writes them, or its first passes take
them away again."""
if not versions.NEGATES_ZEROS:
    TRITON_NEVER_MAKES |= {arith.NegFOp}
if not versions.HAS_ATOMIC_LOADS:
    TRITON_NEVER_MAKES |= {
        tt.ApproxDivFOp,
        tt.AtomicLoadOp,
        tt.AtomicPollOp,
        tt.AtomicStoreOp,
        tt.GridDependencyLaunchDependentsOp,
        tt.GridDependencyWaitOp,
    }
LATER_DIALECTS = ("ttg", "ttng", "amdg", "rocdl")
"""Those of TTGIR: see test_later_stages.py."""


def ttir_of(case: Case) -> builtin.ModuleOp:
    arguments = case.make()
    call = bind(case.kernel, (), {**arguments, **case.options}, DEFAULT_TARGET)
    module = triton_api.make_ttir(case.kernel, call.specialization, DEFAULT_TARGET, call.options)
    return read_module(triton_api.generic_text(module))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_the_cases_reach_every_operation_and_their_modules_come_back_the_same() -> None:
    """What xDSL prints of each module, Triton's own parser reads back to that module."""
    reached: set[type[Operation]] = set()
    for case in one_of_each_kernel():
        module = ttir_of(case)
        reached |= {type(op) for op in module.walk()}
        text = write_module(module)
        returned = triton_api.parse_mlir(text, DEFAULT_TARGET)
        again = read_module(triton_api.generic_text(returned))
        assert write_module(again) == text, case.name
    barriers = {gpu.BarrierOp, ttg.BarrierOp}  # one name up to Triton 3.6, the other from 3.7 on
    assert barriers & reached
    elsewhere = {tt.PrintOp, *barriers, InlinedCallOp}  # test_debugging.py; what calls become
    missing = {op.name for op in set(RULES) - reached - TRITON_NEVER_MAKES - elsewhere}
    assert not {name for name in missing if name.partition(".")[0] not in LATER_DIALECTS}
    assert not {op.name for op in TRITON_NEVER_MAKES & reached}
