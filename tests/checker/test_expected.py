"""What a launch should have computed: the first other element has line, program and lane."""

import sys
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import ArgumentError, OptionError
from tests.support.source_lines import marked_line


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


@triton.jit
def add_short(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask & (offsets != 37), other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=mask)  # WRONG: add_short


@triton.jit
def extremes(x_ptr, least_ptr, most_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(least_ptr, tl.min(x))  # WRONG: extremes
    tl.store(most_ptr, tl.max(x))


@triton.jit
def scale_in_place(x_ptr, by, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * by, mask=mask)


def vectors() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return torch.rand(50), torch.rand(50), torch.zeros(50)


FORMS: dict[str, Callable[..., Any]] = {
    "a function of torch's": torch.add,
    "a function of what is read": lambda a, b: a + b,
    "a function of parameters by name": lambda x_ptr, y_ptr: x_ptr + y_ptr,
    "a function called as the kernel is": lambda x, y, z, n, BLOCK: {"z_ptr": (x + y).numpy()},
    "a function of anything": lambda *all_of_them, **_: {"z_ptr": all_of_them[0] + all_of_them[1]},
    "a tuple": lambda a, b: (a + b,),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_expected_can_be_said_in_many_ways(form) -> None:
    x, y, z = vectors()
    assert not kernellab.check(add, (7,), x, y, z, 50, BLOCK=8, expect=FORMS[form])
    found = kernellab.check(add_short, (7,), x, y, z, 50, BLOCK=8, expect=FORMS[form])
    assert found.kinds == ("wrong-result",)
    assert not z.any()


@pytest.mark.usefixtures("no_fixes")
def test_the_first_wrong_element_has_line_program_and_lane() -> None:
    x, y, z = vectors()
    (one,) = kernellab.check(
        add_short, (7,), x, y, z, 50, BLOCK=8, expect={"z_ptr": (x + y).numpy()}
    )
    assert one.message == (
        f"z_ptr[37] is {x[37]:.6g}, expected {x[37] + y[37]:.6g}; 1 of 50 elements differs"
    )
    assert one.line == marked_line(sys.modules[__name__], "WRONG: add_short")
    assert (one.programs, one.lane, one.index) == (((4, 0, 0),), (5,), (37,))
    assert one.values["offsets"] == 37
    assert "%tilestep --program 4" in one.advice


@pytest.mark.usefixtures("no_fixes")
def test_several_results_and_one_that_nobody_writes(messages) -> None:
    x = torch.arange(5.0) + 1
    least, most = torch.zeros(1), torch.zeros(2)
    found = kernellab.check(
        extremes, (1,), x, least, most, 5, BLOCK=8,
        expect=lambda x: (x.min()[None], torch.stack([x.max(), x.max()])),
    )  # fmt: skip
    assert [one.argument for one in found.of_kind("wrong-result")] == ["most_ptr", "least_ptr"]
    assert found.of_kind("wrong-result")[0].advice == messages
    assert found.of_kind("wrong-result")[1].message.startswith(
        "least_ptr[0] is 0.0, expected 1.0"
    ) or "least_ptr[0] is 0, expected 1" in str(found)


def test_a_kernel_in_place_is_given_what_it_reads_and_that_is_not_touched() -> None:
    x = torch.ones(20)
    assert not kernellab.check(
        scale_in_place, (3,), x, 3.0, 20, BLOCK=8, expect=lambda x: x.mul_(3.0)
    )
    assert x.eq(1).all()


@pytest.mark.usefixtures("no_fixes")
def test_rounding_is_no_fault_unless_it_is_asked_for() -> None:
    x, y, z = (one.half() for one in vectors())
    slightly = (x + y) * 1.001
    launch: tuple[Any, ...] = add, (7,), x, y, z, 50
    assert not kernellab.check(*launch, BLOCK=8, expect={"z_ptr": slightly})
    assert kernellab.check(*launch, BLOCK=8, expect={"z_ptr": slightly}, rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    "expect",
    [
        5, lambda a, b: None, lambda a, b: (a, b), lambda a, b: a[:3], {"w_ptr": numpy.zeros(50)},
        lambda a, b: a @ b.nothing,
        torch.softmax,
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_in_words(expect, raised) -> None:
    x, y, z = vectors()
    raised(ArgumentError, kernellab.check, add, (7,), x, y, z, 50, BLOCK=8, expect=expect)


def test_a_tolerance_that_is_none_is_refused() -> None:
    x, y, z = vectors()
    with pytest.raises((ArgumentError, OptionError), match="rtol"):
        kernellab.check(add, (7,), x, y, z, 50, BLOCK=8, expect=torch.add, rtol=-1.0)


@pytest.mark.slow
def test_what_a_large_tensor_held_before_counts_too() -> None:
    """Its copy is made only where the kernel goes."""
    x, y, z = torch.ones(8), torch.ones(8), torch.full((20_000_000,), 7.0)
    right = z.clone()
    right[:8] = 2
    launch: tuple[Any, ...] = add, (1,), x, y, z, 8
    assert not kernellab.check(*launch, BLOCK=8, expect={"z_ptr": right})
    right[12_345_678] = 8
    (one,) = kernellab.check(*launch, BLOCK=8, expect={"z_ptr": right})
    assert one.message.startswith("z_ptr[12345678] is 7, expected 8")


CELL = """%%tilekernel
@triton.jit
def add_short(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y * SCALE, mask=offsets < n)
"""


@pytest.mark.slow
def test_the_magic(notebook, messages) -> None:
    session = notebook()
    session.run("%load_ext kernellab\nimport torch, triton, triton.language as tl")
    session.run(
        "SCALE = tl.constexpr(2)\nx, y, z = torch.ones(50), torch.ones(50), torch.zeros(50)"
    )
    assert not session.run(CELL).error
    call = "add_short[(7,)](x, y, z, 50, BLOCK=8)"
    session.run("def twice(x_ptr, y_ptr): return x_ptr + 2 * y_ptr")
    right = session.run(f"%tilecheck --expect twice {call}")
    assert "nothing found" in right.card["text/plain"]
    assert "z_ptr has the expected contents." in right.card["text/plain"]
    unasked = session.run(f"%tilecheck {call}")
    assert "compare" in unasked.card["text/plain"]
    wrong = session.run(f"%tilecheck --expect torch.add {call}")
    assert "z_ptr[0] is 3, expected 2; 50 of 50 elements differ" in (wrong.card["text/plain"])
    assert "Cell In[3], line 7" in wrong.card["text/plain"]
    refused = session.run(f"%tilecheck --expect torch.addd {call}")
    assert refused.message == messages


@triton.jit
def overlapping(x_ptr, z_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets) + tl.program_id(0))


@pytest.mark.usefixtures("no_fixes")
def test_the_writer_of_a_wrong_element_is_the_last_one_as_in_a_trace() -> None:
    x, z = torch.arange(24.0), torch.zeros(24)
    right = torch.arange(24.0)
    right[6] += 6
    right[5:] += 1
    launch = kernellab.bind(overlapping, (8,), x, z, BLOCK=16)
    (finding,) = kernellab.check(launch, expect={"z_ptr": right}).of_kind("wrong-result")
    trace = kernellab.trace(launch, expect={"z_ptr": right})
    assert trace.first_shown is not None
    step = trace[trace.first_shown]
    assert (finding.programs, finding.line) == ((step.program,), step.line)
    assert finding.index is not None
    assert finding.lane == (finding.index[0] - step.program[0],)


@pytest.mark.usefixtures("no_fixes")
def test_a_wrong_element_is_told_with_what_it_was_computed_from() -> None:
    x, y, z = vectors()
    (finding,) = kernellab.check(
        add_short, (4,), x, y, z, 50, BLOCK=16, expect=torch.add
    ).findings  # fmt: skip
    assert [(one.argument, one.first[0][0]) for one in finding.inputs or ()] == [("x_ptr", (37,))]
    assert f"computed from x_ptr[37] = {x[37].item():.6g}" in str(finding)


@pytest.mark.usefixtures("no_fixes")
def test_what_was_expected_stays_with_the_launch() -> None:
    findings = kernellab.check(add_short, (4,), *vectors(), 50, BLOCK=16, expect=torch.add)
    assert findings.launch is not None
    trace = kernellab.trace(findings.launch)
    assert trace.wrong is not None
    assert trace.launch is not None
    assert kernellab.check(trace.launch).kinds == ("wrong-result",)


@triton.jit
def stored_sum(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, tl.sum(x.to(tl.float32) if x.dtype.is_floating() else x))


@pytest.mark.usefixtures("no_fixes")
@pytest.mark.parametrize(
    ("x", "out", "kinds"),
    [
        (torch.full((64,), 1 << 26), torch.int32, {"truncated-store", "wrong-result"}),
        (torch.full((64,), 1 << 20), torch.int32, set()),
        (torch.full((64,), 0.3001, dtype=torch.float16), torch.float32, set()),
        (torch.full((64,), 4, dtype=torch.int8), torch.bool, {"truncated-store", "wrong-result"}),
        (torch.ones(64, dtype=torch.int8), torch.bool, set()),
    ],
    ids=["does not fit", "fits", "fp16 for an fp32 result", "256 as a bool", "64 as a bool"],
)
def test_what_is_expected_keeps_its_type(x, out, kinds) -> None:
    total = x.sum()[None]
    expected = {"out_ptr": total.bool() if out is torch.bool else total}
    found = kernellab.check(
        stored_sum, (1,), x, torch.zeros(1, dtype=out), BLOCK=64, expect=expected
    )
    assert {finding.kind for finding in found} == kinds


# Outputs that no program writes, and stores that a constexpr removes


# mypy: disable-error-code="no-untyped-def, no-untyped-call"


@triton.jit
def _save(pointer, offsets, value, SAVE: tl.constexpr):
    if SAVE:
        tl.store(pointer + offsets, value)


@triton.jit
def normalize(x_ptr, y_ptr, mean_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    mean = tl.sum(x, 0) / BLOCK
    tl.store(y_ptr + offsets, x - mean)
    target = mean_ptr + 0
    if SAVE:
        tl.store(target, mean)


@triton.jit
def save_by_a_helper(x_ptr, y_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    _save(y_ptr, offsets, tl.load(x_ptr + offsets), SAVE)


@triton.jit
def save_unless_early(x_ptr, y_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    if not SAVE:
        return
    tl.store(y_ptr + offsets, x)


@triton.jit
def save_after_return(x_ptr, y_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    return
    tl.store(y_ptr + offsets, x)


@triton.jit
def save_to_the_input(x_ptr, y_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets)
    if SAVE:
        tl.store(x_ptr + offsets, x)


def test_an_output_whose_stores_a_constexpr_removes():
    x, y, mean = torch.rand(64), torch.empty(64), torch.empty(1)
    outputs = ("y_ptr", "mean_ptr")
    found = kernellab.check(normalize, (1,), x, y, mean, False, BLOCK=64, outputs=outputs)
    assert not found
    (note,) = [note for note in found.notes if "is not an output of this launch" in note]
    assert note.startswith("mean_ptr")
    assert not kernellab.check(normalize, (1,), x, y, mean, True, BLOCK=64, outputs=outputs)


@pytest.mark.parametrize("kernel", [save_by_a_helper, save_unless_early])
@pytest.mark.parametrize("outputs", [(), "y_ptr"])
def test_a_kernel_whose_stores_a_constexpr_removes(kernel, outputs):
    x, y = torch.rand(64), torch.empty(64)
    found = kernellab.check(kernel, (1,), x, y, False, BLOCK=64, outputs=outputs)
    assert not found
    assert any(note.startswith("y_ptr is not an output") for note in found.notes)
    assert not kernellab.check(kernel, (1,), x, y, True, BLOCK=64, outputs=outputs).notes


def test_stores_that_no_constexpr_removes():
    x, y = torch.rand(64), torch.empty(64)
    for kernel, outputs in [(save_after_return, ()), (save_to_the_input, "y_ptr")]:
        found = kernellab.check(kernel, (1,), x, y, False, BLOCK=64, outputs=outputs)
        assert [finding.kind for finding in found] == ["unwritten-output"], kernel
