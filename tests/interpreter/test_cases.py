"""Every case against its reference, however many programs run together; all operations."""

from collections.abc import Iterator

import pytest
from xdsl.dialects import builtin
from xdsl.ir import Operation

import kernellab
from kernellab import triton_api
from kernellab.compiler.binding import bind
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import CompileError, OptionError
from kernellab.interpreter.codegen.emitter import RULES
from kernellab.interpreter.execution import launcher
from kernellab.interpreter.execution.grid import Grid, Programs, batches
from kernellab.ir import mlir, tt, ttg
from kernellab.ir.syntax import read_module, write_module
from tests.cases.case import Case
from tests.cases.every import CASES, one_of_each_kernel
from tests.corpus.loader import WHOLE
from tests.support import versions

BY_NAME = {case.name: case for case in CASES}
IN_STEP = [case for case in CASES if case.grid != (1,)]


def test_names_differ() -> None:
    assert len(BY_NAME) == len(CASES)


@pytest.mark.sampled(10)
@pytest.mark.filterwarnings("error::RuntimeWarning", "error:The given NumPy array is not writable")
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("name", BY_NAME)
def test_case(name) -> None:
    case = BY_NAME[name]
    case.check(case.launch())


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize(
    ("size", "every"), [(2, 32), *(pytest.param(n, 1, marks=pytest.mark.slow) for n in (1, 2))]
)
def test_however_many_programs_run_together(size, every, monkeypatch) -> None:
    """One program a batch, and batches of two with one left over, give what all together give."""
    sizes = []

    def few(grid: Grid, given: int, order: str, seed: int) -> Iterator[Programs]:
        sizes.append(given)
        return batches(grid, min(given, size), order, seed)

    monkeypatch.setattr(launcher, "batches", few)
    cases = IN_STEP[::every]
    for case in cases:
        case.check(case.launch())
    assert len(sizes) == len(cases)
    assert max(sizes) > 2


TRITON_NEVER_MAKES = {
    mlir.BitcastOp, mlir.CeilDivSIOp, mlir.FloorDivSIOp, mlir.IndexCastOp, mlir.Atan2Op,
    mlir.CopySignOp, mlir.ExpM1Op, mlir.IsInfOp, mlir.IsNaNOp, mlir.Log10Op, mlir.Log1pOp,
    mlir.PowFOp, mlir.RoundEvenOp, mlir.TanOp, mlir.TanhOp, mlir.TruncOp, mlir.PoisonOp,
}  # fmt: skip
"""Lowered, though Triton's front end never writes them, or its first passes take
them away again."""
if not versions.NEGATES_ZEROS:
    TRITON_NEVER_MAKES |= {mlir.NegFOp}
if not versions.HAS_ATOMIC_LOADS:
    TRITON_NEVER_MAKES |= {
        tt.ApproxDivFOp, tt.AtomicLoadOp, tt.AtomicPollOp, tt.AtomicStoreOp,
        tt.GridDependencyLaunchDependentsOp, tt.GridDependencyWaitOp,
    }  # fmt: skip
LATER_DIALECTS = ("ttg", "ttng", "amdg", "rocdl")
"""Those of TTGIR, which other cases below reach."""


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
    barriers = {mlir.BarrierOp, ttg.BarrierOp}  # one name up to Triton 3.6, the other from 3.7 on
    assert barriers & reached
    elsewhere = {tt.PrintOp, *barriers, tt.InlinedCallOp}  # test_foreign_code.py; what calls become
    missing = {op.name for op in set(RULES) - reached - TRITON_NEVER_MAKES - elsewhere}
    assert not {name for name in missing if name.partition(".")[0] not in LATER_DIALECTS}
    assert not {op.name for op in TRITON_NEVER_MAKES & reached}


TARGETS = ("sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950")
CHOSEN = CASES if WHOLE else one_of_each_kernel()
REFUSALS = (
    "not supported in this architecture", "input_precision must be one of",
    "require native tma support", "failed to legalize operation",
    "target doesn't provide conversion", "libdevice' has no attribute",
    "an assertion inside the compiler failed",
)  # fmt: skip
"""What Triton's compiler says of kernels that a target does not have, or that it cannot do."""


def run_case(case: Case, target: str, stage: str) -> None:
    arguments = case.make()
    with kernellab.interpreted(target=target, stage=stage):
        kernellab.run(case.kernel, case.grid, **arguments, **case.options)
    case.check(arguments)


@pytest.mark.thinned(2)
@pytest.mark.sampled(48)
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("target", TARGETS if WHOLE else ("sm_90",))
@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_case_in_ttgir(case, target) -> None:
    try:
        run_case(case, target, "ttgir")
    except CompileError as error:
        if not any(words in str(error) for words in REFUSALS):
            raise
        pytest.skip(f"{target} does not have it")


STAGES = ("ttir.inliner", "ttir.combine", "ttir.cse", "ttgir.coalesce", "ttgir.pipeline", "ttgir")


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "name", ["product-float16-float32-ieee", "reduced_rows-sum-float32", "collatz"]
)
def test_after_a_pass(name, stage) -> None:
    run_case({case.name: case for case in CASES}[name], "sm_90", stage)


def test_a_pass_that_does_not_run(raised) -> None:
    raised(OptionError, run_case, CASES[0], "sm_90", "ttgir.coalesced", match=r"ttgir\.coalesced")
