"""The IR of later stages gives what TTIR gives:
every case of the interpreter once more, in TTGIR.
"""

import pytest

import kernellab
from kernellab.errors import CompileError, OptionError
from tests.cases.case import Case
from tests.cases.every import CASES, one_of_each_kernel
from tests.corpus.loader import WHOLE

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


@pytest.mark.sampled(96)
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
