"""Faults that show only in some schedules: whatever the values, and what is said of them."""

import pytest
import triton
import triton.language as tl

import kernellab
from kernellab.checker.session import MOST_PREEMPTED
from tests.checker.corpus import schedules
from tests.checker.corpus.schedules import counters

WITH_VALUES = [
    number for number, one in enumerate(schedules.PAIRS) if one.name.startswith(("argmin", "pops"))
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", WITH_VALUES, ids=lambda one: schedules.PAIRS[one].name)
def test_it_is_found_whatever_the_values(number) -> None:
    for seed in range(1, 9):
        faulty = schedules.launches(seed)[number].faulty
        found = faulty.check()
        assert {(one.kind, one.line) for one in found} == faulty.marked(), (seed, str(found))


@pytest.mark.slow
def test_of_many_programs_none_is_preempted() -> None:
    """What shows only there is not found, and the docs say so."""

    def kinds(programs: int) -> tuple[str, ...]:
        arguments = counters(2), counters()
        return kernellab.check(schedules.two_locks, (programs,), *arguments, CROSSED=True).kinds

    assert kinds(MOST_PREEMPTED) == ("deadlock",)
    assert not kinds(MOST_PREEMPTED + 1)


def test_a_deadlock_in_another_schedule_says_in_which(messages) -> None:
    crossed = next(one for one in schedules.PAIRS if one.name == "two_locks").faulty
    (found,) = crossed.check()
    assert found.message == messages
    assert found.advice == messages
    assert found.programs == tuple((one, 0, 0) for one in range(6))


def test_a_result_that_another_schedule_changes_says_both_values(messages) -> None:
    argmin = next(one for one in schedules.PAIRS if one.name == "argmin_by_exchanges").faulty
    (found,) = argmin.check()
    assert found.message == messages
    assert "in turns" in found.message


@triton.jit
def wait_for_all(count_ptr, out_ptr, PROGRAMS: tl.constexpr):
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < PROGRAMS:
        pass
    tl.store(out_ptr + tl.program_id(0), 1)


@pytest.mark.parametrize("programs", [40, 41])
def test_programs_that_wait_for_more_than_a_gpu_holds(programs: int) -> None:
    """A T4 has 40 multiprocessors, each with room for 32 warps."""
    launch = wait_for_all, (programs,), counters(), counters(programs)
    found = kernellab.check(*launch, PROGRAMS=programs, num_warps=32, target="sm_75")
    assert found.kinds == (("deadlock",) if programs > 40 else ())
    assert not found or "at most 40 programs" in found[0].advice
