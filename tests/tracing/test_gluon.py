"""Traces of Gluon kernels: memory on the chip, barriers, groups of warps, operations in flight."""

from typing import Any

import numpy
import pytest
import torch

import kernellab
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import AsyncOperation, Step
from tests.cases.case import normal
from tests.corpus.matmuls import matmul
from tests.kernels import asynchronous
from tests.kernels.asynchronous import NAMES, TILES, launched, never_waits, target_of
from tests.support.broken_kernels import broken

QUICK = ("copies", "tma_copies", "products", "specialized")


def traced(name: str, completion: str = "late", **options: Any) -> Trace:
    kernel, args, _ = launched(name)
    target, chosen = target_of(name), {"completion": completion, **options}
    return kernellab.trace(kernel, (1,), *args, TILES, target=target, **chosen)


def code_of(trace: Trace, step: Step) -> str:
    (source,) = (s for s in trace.sources if s.function == step.function)
    return source.lines[step.line - source.first_line]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("completion", ["early", "late", "shuffled"])
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_a_kernel_steps_to_the_right_result(name: str, completion: str) -> None:
    kernel, args, right = launched(name)
    target = target_of(name)
    trace = kernellab.trace(
        kernel, (1,), *args, TILES, target=target, completion=completion, in_place=True
    )
    out = getattr(args[-1], "base", args[-1])
    torch.testing.assert_close(out.float(), right.float(), rtol=1e-3, atol=1e-3)
    is_asynchronous = name != "passed_on"  # whose groups load and store by themselves
    assert bool(trace.asynchronous) == (is_asynchronous and completion != "early")
    for operation in trace.asynchronous:
        assert operation.completed is None or operation.issued <= operation.completed
        assert trace[operation.issued].line == operation.line


def stage(number: int) -> tuple[str, ...]:
    return (f"stages[{number % 2}]",)


def operands(number: int) -> tuple[str, ...]:
    return (f"stages_a[{number % 2}]", f"stages_b[{number % 2}]")


def phase(number: int) -> str:
    return f"phase {number // 2 & 1} of filled[{number % 2}]"


FLIGHTS = {
    # name: (issued where, completed where, buffers and wait of the operation with a number)
    "copies": ("copy_to_shared(", "wait_group(", stage, "commit group {}".format),
    "tma_copies": ("tma_load(", "mbarrier.wait(", stage, phase),
    "products": ("warpgroup_mma(", "warpgroup_mma_wait(", operands, "wgmma group {}".format),
    "specialized": ("tma_load(", "mbarrier.wait(filled", stage, phase),
}


@pytest.mark.parametrize("name", FLIGHTS)
def test_operations_are_in_flight_from_their_issue_to_their_wait(name: str) -> None:
    issue, wait, buffers, awaits = FLIGHTS[name]
    trace = traced(name)
    flights = [one for one in trace.asynchronous if issue in code_of(trace, trace[one.issued])]
    assert len(flights) == TILES
    for number, flight in enumerate(flights):
        assert (flight.buffers, flight.awaits) == (buffers(number), awaits(number))
        assert flight.completed is not None
        assert wait in code_of(trace, trace[flight.completed])
        states = [flight.state(step) for step in range(flight.issued, flight.completed + 1)]
        assert states == ["issued", *["pending"] * (len(states) - 2), "complete"]
        assert flight in trace.in_flight(flight.issued)
        assert flight not in trace.in_flight(flight.completed + 1)
    assert max(len(trace.in_flight(step)) for step in trace) > 1


@pytest.mark.parametrize("name", ["copies", "tma_copies", "direct_loads"])
def test_a_tile_that_was_waited_for_came_from_its_copy(name: str) -> None:
    trace = traced(name)
    source, out = trace.arguments
    rows, *columns = trace.arguments[out].shape
    size = rows * int(numpy.prod(columns)) // TILES
    for tile in range(TILES):
        origin = trace.why(out, (tile * rows // TILES, *(0 for _ in columns)))
        loads = [load for each in origin.walk() for load in each.loads]
        assert any(f"{source}: elements {tile * size} to" in load for load in loads), loads


def test_what_never_completes_is_pending_to_the_end() -> None:
    trace = kernellab.trace(
        never_waits, (1,), torch.ones(512), 3, "copy", target="sm_80", completion="late"
    )
    assert [flight.completed for flight in trace.asynchronous] == [None] * 3
    assert [flight.state(len(trace) - 1) for flight in trace.asynchronous] == ["pending"] * 3


def first(trace: Trace, code: str) -> int:
    return next(step.number for step in trace if code in code_of(trace, step))


def test_memory_and_barriers_hold_what_has_arrived() -> None:
    source = launched("tma_copies")[1][0].base
    trace = traced("tma_copies")
    wait, number = first(trace, "mbarrier.wait("), first(trace, "for number")
    stages = trace.at(wait).stages
    assert numpy.isnan(trace.at(wait - 1).stages).all()
    numpy.testing.assert_array_equal(stages[0], source[:64].numpy())
    assert numpy.isnan(stages[1]).all()
    barriers = [trace.at(step)["filled[0]"].shown for step in (3, 4, number, wait)]
    assert [text.partition("(")[2] for text in barriers] == [
        "not initialized)",
        "phase 0, waits for 1 of 1 arrivals)",
        "phase 0, waits for 8,192 bytes)",
        "phase 1, waits for 1 of 1 arrivals)",
    ]
    product = traced("products")
    before, after = (product.at(first(product, code)) for code in ("warpgroup_mma(", "total ="))
    assert numpy.isnan(before.sums).all()
    assert numpy.isfinite(after.sums).all()


def test_each_group_of_warps_has_steps_of_its_own() -> None:
    trace = traced("specialized")
    by_function = {step.function: step.partition for step in trace}
    assert by_function == {
        "specialized": "",
        "specialized__produce": "specialized__produce",
        "specialized__consume": "specialized__consume",
    }
    frames = [frame.function for frame in trace.frames]
    assert sorted(frames) == sorted(by_function)  # groups take turns in one call each
    turns = [step.turns[0].number for step in trace if "tma_load(" in code_of(trace, step)]
    assert turns == list(range(TILES))
    assert trace[-1].function == "specialized"


def test_a_fault_is_in_the_step_of_the_group_that_waits(tmp_path) -> None:
    module, _ = broken(asynchronous, "specialized", "E", tmp_path)
    kernel, args, _ = module.launched("specialized")
    trace: Any = kernellab.trace(kernel, (1,), *args, TILES, target="sm_90", completion="late")
    assert trace.fault.kind == "EndlessWait"
    assert trace.fault.step is not None
    assert trace[trace.fault.step].line == trace.fault.position.line


def test_a_saved_trace_has_operations_and_partitions(tmp_path) -> None:
    trace = traced("specialized")
    trace.save(tmp_path / "s.trace")
    loaded = kernellab.load(tmp_path / "s.trace")

    def facts(one: AsyncOperation) -> dict[str, Any]:
        return vars(one)

    assert list(map(facts, loaded.asynchronous)) == list(map(facts, trace.asynchronous))
    assert [step.partition for step in loaded] == [step.partition for step in trace]
    assert loaded.show(30).text() == trace.show(30).text()


def test_the_stepper_names_what_is_in_flight() -> None:
    trace = traced("copies")
    step = first(trace, "wait_group(1)")
    copy = "async_copy_global_to_local, line"
    issued, pending = (flight.line for flight in trace.asynchronous[:2])
    for text in (trace.show(step).text(), trace.show(step).still_html()):
        assert "1 operation in flight" in text
        assert f"complete: {copy} {issued}, into stages[0], commit group 0" in text
        assert f"pending: {copy} {pending}, into stages[1], commit group 1" in text
    warps = traced("specialized")
    assert "partition specialized__produce" in warps.show(first(warps, "tma_load(")).text()


def test_a_compiled_kernel_shows_what_is_in_flight() -> None:
    a, b = normal(32, 96, dtype=torch.float16), normal(96, 32, dtype=torch.float16, seed=1)
    c, sizes = torch.zeros(32, 32, dtype=torch.float16), (32, 32, 96, 96, 1, 32, 1, 32, 1)
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 1}
    trace = kernellab.trace(
        matmul, (1,), a, b, c, *sizes, **blocks, target="sm_80", completion="late", in_place=True
    )
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-3, atol=1e-2)
    states = [each.state(n) for n in range(len(trace)) for each in trace.in_flight(n)]
    assert {*states} == {"issued", "pending", "complete"}
    assert all(trace[each.issued].line == each.line for each in trace.asynchronous)
