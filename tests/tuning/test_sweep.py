"""The course of a sweep, with a crew that does as it is told."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from kernellab.compiler.records import Resources
from kernellab.tuning.assignments import Delivery, Setup
from kernellab.tuning.files import Store
from kernellab.tuning.records import Candidate, Compiled, Dropped, Outcome, Timing
from kernellab.tuning.sweep import Conduct, Entry, Sweep, SweepProgress

COMPILED = Compiled(Resources(32, 0, 0, 0), 1.0, "registers", "", 0.1)
SETUP = Setup(b"job", Delivery("arguments"), None, None, 0)


def entries(count: int) -> list[Entry]:
    return [
        Entry(number, Candidate({"BLOCK": number}, {}), b"%d" % number, SETUP, (number,))
        for number in range(count)
    ]


class ObedientPool:
    """Answers at once, by two functions of a config's number; keeps what it was asked."""

    def __init__(
        self, compiles: Callable[[int], Outcome], runs: Callable[[int], Outcome], runs_at_once=1
    ) -> None:
        self.compiles_at_once = 4
        self.runs_at_once = runs_at_once
        self.asked: list[tuple[str, int]] = []
        self.standards: dict[int, bytes | None] = {}
        self.methods: dict[int, str | None] = {}
        self.stopped = False
        self._compiles, self._runs = compiles, runs

    def of(self, kind: str) -> list[int]:
        """The numbers of the configs of which something was asked."""
        return [number for what, number in self.asked if what == kind]

    def get_ready(self, setup) -> None:
        self.asked.append(("get ready", 0))

    def compile(self, job, task, seconds):
        return self._answer("compile", int(task), self._compiles)

    def run(self, setup, task, trial_options, seconds):
        number = int(task)
        self.standards.setdefault(number, setup.standard)
        self.methods.setdefault(number, trial_options.method)
        return self._answer("run" if trial_options.check else "again", number, self._runs)

    def _answer(self, what, number, answer):
        self.asked.append((what, number))
        future: Future[Outcome] = Future()
        try:
            future.set_result(answer(number))
        except Exception as error:
            future.set_exception(error)
        return future

    def stop(self) -> None:
        self.stopped = True


def timed(milliseconds: float, method="events") -> Outcome:
    samples = [milliseconds * (1 + part / 1000) for part in range(-5, 6)]
    return Outcome(checked="the first config", timing=Timing.of(samples, method))


def quiet(count: int) -> SweepProgress:
    return SweepProgress("k", count, shown=False)


def sweep(count: int, pool: Any, *, store=None, measure=True, check=True) -> Sweep:
    conduct = Conduct(b"job", check=check, measure=measure, seconds=30)
    return Sweep(entries(count), pool, conduct, store or Store(None), quiet(count))


def fine(_number: int) -> Outcome:
    return Outcome()


def why(outcome: Outcome) -> str:
    """ "crash: it was crash"; "" for a config that stays."""
    return "" if outcome.dropped is None else f"{outcome.dropped.reason}: {outcome.dropped.why}"


def timing(outcome: Outcome) -> Timing:
    assert outcome.timing is not None
    return outcome.timing


def dropped(reason) -> Outcome:
    return Outcome(dropped=Dropped(reason, f"it was {reason}"))


def test_the_first_config_that_runs_is_what_the_others_are_compared_with() -> None:
    pool = ObedientPool(
        lambda n: dropped("compile error") if n == 0 else fine(n),
        lambda n: dropped("crash") if n == 1 else timed(n),
    )
    outcomes = sweep(5, pool).outcomes()
    assert pool.of("run") == [1, 2, 3, 4]
    assert pool.standards == {1: None, 2: None, 3: b"2", 4: b"2"}
    assert pool.methods[3] == "events"  # all are timed in the way that suited the first
    assert list(outcomes) == [0, 1, 2, 3, 4]
    assert why(outcomes[0]).startswith("compile error")
    assert why(outcomes[1]).startswith("crash")


def test_with_a_reference_each_gpu_has_a_config_that_leads_and_all_are_timed_in_one_way() -> None:
    answers = {0: ["events"], 1: ["graph", "events"]}

    def run(number: int) -> Outcome:
        chosen = answers.get(number, [])
        return timed(1 + number, chosen.pop(0) if chosen else "events")

    pool: Any = ObedientPool(fine, run, runs_at_once=2)
    referred = [
        replace(one, setup=replace(SETUP, reference=Delivery("results"))) for one in entries(4)
    ]
    conduct = Conduct(b"job", check=True, measure=True, seconds=30)
    outcomes = Sweep(referred, pool, conduct, Store(None), quiet(1)).outcomes()
    assert pool.of("run") == [0, 1, 1, 2, 3]
    assert pool.methods == {0: None, 1: None, 2: "events", 3: "events"}
    assert {timing(outcome).method for outcome in outcomes.values()} == {"events"}


def test_configs_near_the_top_are_timed_twice_and_pooled() -> None:
    times = {0: 1.0, 1: 1.02, 2: 2.0, 3: 1.5}
    pool = ObedientPool(fine, lambda n: timed(times[n]))
    outcomes = sweep(4, pool).outcomes()
    assert pool.of("again") == [0, 1]
    assert [timing(outcomes[n]).rounds for n in range(4)] == [2, 2, 1, 1]
    assert timing(outcomes[0]).runs == 22


def test_one_that_is_far_ahead_is_timed_again_beside_the_next() -> None:
    pool = ObedientPool(fine, lambda n: timed([2.0, 1.0, 1.5][n]))
    outcomes = sweep(3, pool).outcomes()
    assert pool.of("again") == [1, 2]
    assert [timing(outcomes[n]).rounds for n in range(3)] == [1, 2, 2]


def test_a_config_that_gets_lost_is_given_out_again() -> None:
    losses = {2: 2, 3: 9}

    def run(number: int) -> Outcome:
        if losses.get(number, 0) > 0:
            losses[number] -= 1
            raise ConnectionError("the worker is gone")
        return replace(timed(number + 1), compiled=COMPILED)

    pool = ObedientPool(fine, run)
    outcomes = sweep(5, pool).outcomes()
    assert outcomes[2].timing is not None
    assert why(outcomes[3]) == "lost: ConnectionError: the worker is gone"
    assert pool.asked.count(("run", 3)) == 3
    assert outcomes[4].timing is not None


def test_an_interrupt_keeps_what_is_there_and_the_next_sweep_goes_on(messages) -> None:
    runs = 0

    def run(number: int) -> Outcome:
        nonlocal runs
        runs += 1
        return timed(number + 1)

    class Interrupting(SweepProgress):
        heard = 0

        def done(self, trial):
            self.heard += 1
            if self.heard == 3:
                raise KeyboardInterrupt

    first: Any = ObedientPool(fine, run)
    conduct = Conduct(b"job", check=True, measure=True, seconds=30)
    interrupted = Sweep(
        entries(6), first, conduct, Store(["a kernel"]), Interrupting("k", 6, False)
    )
    outcomes = interrupted.outcomes()
    assert first.stopped
    assert len(outcomes) == 3
    assert interrupted.notes == messages
    second = ObedientPool(fine, run)
    resumed = sweep(6, second, store=Store(["a kernel"])).outcomes()
    assert sorted(second.of("run")) == sorted(set(range(6)) - set(outcomes))
    assert len(resumed) == 6
    assert set(second.standards.values()) == {b"0"}
    other = ObedientPool(fine, run)
    sweep(6, other, store=Store(["another kernel"])).outcomes()
    assert len(other.of("run")) == 6


def test_what_crashed_hung_or_got_lost_is_tried_again_the_next_time() -> None:
    reasons = ["compile error", "crash", "time-out", "wrong result"]
    for expected in ([0, 1, 2, 3, 4], [1, 2]):
        pool = ObedientPool(fine, lambda n: dropped(reasons[n]) if n < 4 else timed(1))
        sweep(5, pool, store=Store(["k"])).outcomes()
        assert pool.of("compile") == expected


def test_slow_checks_on_the_interpreter_are_given_up_unless_asked_for(messages) -> None:
    def slow(number: int) -> Outcome:
        return Outcome(checked="the first config", check_seconds=9.0)

    pool = ObedientPool(fine, slow)
    given_up = sweep(4, pool, measure=False, check=None)
    outcomes = given_up.outcomes()
    assert [one.checked for one in outcomes.values()] == messages
    assert given_up.notes[0] == messages
    asked_for = sweep(4, ObedientPool(fine, slow), measure=False, check=True).outcomes()
    assert all(one.checked for one in asked_for.values())
    pool = ObedientPool(fine, lambda n: dropped("time-out"))
    outcomes = sweep(3, pool, measure=False, check=None).outcomes()
    assert not any(one.dropped for one in outcomes.values())


def test_a_config_that_the_interpreter_does_not_finish_leads_no_sweep(messages) -> None:
    pool = ObedientPool(fine, lambda n: dropped("time-out") if n == 0 else timed(1))
    outcomes = sweep(3, pool, measure=False).outcomes()
    assert outcomes[0].unchecked == messages
    assert outcomes[0].dropped is None
    assert pool.standards == {0: None, 1: None, 2: b"1"}
