"""The benchmark harness, with a server that cannot hang its client, and the measured kernels."""

import os

import pandas
import pytest

from benchmarks import harness, profile_on_gpu
from benchmarks.eleven_kernels import cleared, eleven_cases
from kernellab.cli.demo import Case, check_outputs
from kernellab.launch.tile_kernel import run


def describe(request: str) -> tuple[str, str | None, int]:
    """Answers of the server under test."""
    if request == "print":
        print("chatter on standard output")
        os.write(1, b"and from below Python\n")
    if request == "fail":
        raise ValueError("asked to fail")
    if request == "die":
        os._exit(3)
    return request, os.environ.get("KERNELLAB_TEST_WORD"), os.getpid()


def test_the_sides_take_turns_after_one_warm_up_each() -> None:
    calls: list[str] = []

    def side(name: str, seconds: float) -> harness.Side:
        def call() -> harness.Sample:
            calls.append(name)
            return harness.Sample(seconds, len(calls))

        return call

    comparison = harness.take_turns(side("a", 1.0), side("b", 3.0), rounds=2, ours_per_round=2)
    assert "".join(calls) == "ab" + "aab" * 2
    assert (comparison.ours, comparison.theirs) == ([1.0] * 4, [3.0] * 2)
    assert (comparison.last_ours, comparison.last_theirs) == (7, 8)
    assert comparison.speedup == 3.0
    assert comparison.overhead == pytest.approx(1 / 3)


def test_time_out_stops_after_a_whole_round() -> None:
    sample = harness.Sample(1.0)
    comparison = harness.take_turns(
        lambda: sample, lambda: sample, rounds=9, warm_up=False, seconds=0.0
    )
    assert len(comparison.ours) == len(comparison.theirs) == 1


def test_medians_not_means() -> None:
    comparison = harness.Comparison([1.0, 1.0, 100.0], [2.0, 2.0, 2.0], None, None)
    assert comparison.speedup == 2.0


def test_timed_gives_the_output_and_a_time() -> None:
    sample = harness.timed(lambda: sum(range(100_000)))
    assert sample.output == 4_999_950_000
    assert 0 < sample.seconds < 10


def test_geometric_mean() -> None:
    assert harness.geometric_mean([1.0, 100.0]) == pytest.approx(10.0)


def test_markdown() -> None:
    rows = pandas.DataFrame({"kernel": ["add"], "ratio": [74]})
    assert harness.markdown_table(rows).splitlines() == [
        "| kernel | ratio |",
        "|---|---:|",
        "| add | 74 |",
    ]


@pytest.mark.slow
def test_a_server_has_its_own_process_and_environment() -> None:
    with harness.Server(
        "tests.benchmarks.test_benchmarks:describe", {"KERNELLAB_TEST_WORD": "hello"}
    ) as server:
        request, word, process = server.ask("a")
        assert (request, word) == ("a", "hello")
        assert process != os.getpid()
        # What it prints disturbs nothing, and a failure does not end it.
        assert server.ask("print")[0] == "print"
        with pytest.raises(RuntimeError, match="ValueError: asked to fail"):
            server.ask("fail")
        assert server.ask("b")[2] == process


@pytest.mark.slow
def test_a_server_that_dies_is_an_error_and_no_hang() -> None:
    with (
        harness.Server("tests.benchmarks.test_benchmarks:describe", {}) as server,
        pytest.raises(RuntimeError, match="the server died: exit status 3"),
    ):
        server.ask("die")


@pytest.mark.slow
@pytest.mark.parametrize("case", eleven_cases(), ids=lambda case: case.name)
def test_the_interpreter_is_right_on_the_kernels_it_is_measured_on(case: Case) -> None:
    arguments = case.make_arguments()
    for _ in range(2):  # a kernel that adds to its output starts from zeros each time
        cleared(case, arguments)
        run(case.kernel, case.grid, **arguments, **case.constants, **case.options)
    assert [check for check in check_outputs(case, arguments) if not check.passed] == []


def test_a_recorded_profile_leaves_out_columns_in_which_nothing_is() -> None:
    page = (
        "==PROF== a line of the profiler's own\n"
        '"Kernel Name","add"\n'
        '"Address","Source","# Samples","Instructions '
        'Executed","stall_wait","stall_tex","Access Size"\n'
        '"0x10","      LDG.E R4, desc[UR4][R2.64] ","0","8","0","0","32"\n'
        '"0x20","      EXIT ","3","8","3","0","-"\n'
    )
    assert profile_on_gpu.compact(page) == (
        '"Kernel Name","add"\n'
        '"Address","Source","# Samples","Instructions Executed","stall_wait","Access Size"\n'
        '"0x10","      LDG.E R4, desc[UR4][R2.64] ","0","8","0","32"\n'
        '"0x20","      EXIT ","3","8","3","-"\n'
    )


def test_a_recorded_profile_that_is_too_long_loses_the_stalls_that_hid_nothing() -> None:
    rows = "\n".join(f'"0x{at}0","{"NOP " * 9}","1","1","1","1"' for at in range(4000))
    page = (
        '"Address","Source","# Samples","Instructions Executed","stall_wait","stall_wait '
        '(Not Issued)"\n'
        f"{rows}\n"
    )
    kept = profile_on_gpu.compact(page)
    assert "(Not Issued)" not in kept
    assert kept.count("\n") == 2 + 4000


def test_the_counters_of_a_launch_have_units() -> None:
    page = (
        '"ID","Process ID","Host Name","Kernel Name","gpu__time_duration.sum","sm__none.sum"\n'
        '"","","","","ns","inst"\n'
        '"0","77","a machine","add","1,536","0"\n'
    )
    counters = profile_on_gpu.counters(page)
    assert counters == {"Kernel Name": "add", "gpu__time_duration.sum": "1,536 ns"}
