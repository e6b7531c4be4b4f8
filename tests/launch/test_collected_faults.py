"""`interpreted(on_fault="collect")`: launches go on after accesses out of bounds."""

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import KernelFault, OptionError, OutOfBounds

# mypy: disable-error-code="no-untyped-def, no-untyped-call"


@triton.jit
def copies(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(y_ptr + offsets, x)


@triton.jit
def counts(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    old = tl.atomic_add(x_ptr + offsets, 1)
    tl.store(y_ptr + offsets, old)


@triton.jit
def follows_addresses(addresses_ptr, y_ptr):
    pointer = tl.load(addresses_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(y_ptr + tl.program_id(0), tl.load(pointer))


@triton.jit
def copies_a_block(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, [BLOCK], [1], [BLOCK])
    y.store([0], x.load([0]))


@triton.jit
def asserts(x_ptr, BLOCK: tl.constexpr):
    tl.device_assert(tl.load(x_ptr) > 0, "positive")


def test_reads_give_garbage_and_writes_are_dropped(capsys, messages) -> None:
    x, y, z = torch.arange(10.0), torch.full((16,), 7.0), torch.zeros(4)
    with kernellab.interpreted(on_fault="collect") as run:
        copies[(2,)](x, y, BLOCK=8)
        copies[(2,)](x, y, BLOCK=8)
        copies[(1,)](x, z, BLOCK=8)
    assert torch.equal(y[:10], x)
    assert y[10:].isnan().all()
    assert torch.equal(z, x[:4])
    load, store = run.faults
    assert (load.count, store.count) == (12, 4)
    assert isinstance(load.error, OutOfBounds)
    assert load.error.program == (1, 0, 0)
    assert load.error.index == 10
    assert "load" in str(load)
    assert str(load) == messages
    printed = capsys.readouterr().err
    assert printed == messages
    assert "y_ptr" in printed


@pytest.mark.slow
def test_integers_atomics_addresses_and_descriptors() -> None:
    x, y = torch.zeros(3, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    pattern = torch.tensor([0xA5] * 4, dtype=torch.uint8).view(torch.int32).item()
    ints = torch.arange(16, dtype=torch.int16)
    beyond = torch.zeros(64, dtype=torch.int16)
    floats, found = torch.ones(1), torch.zeros(2)
    addresses = torch.tensor([floats.data_ptr(), 64])
    with kernellab.interpreted(on_fault="collect") as run:
        counts[(1,)](x, y, BLOCK=4)
        follows_addresses[(2,)](addresses, found)
        copies_a_block[(1,)](ints, beyond, 64, BLOCK=64)
    assert x.tolist() == [1, 1, 1]
    assert y.tolist() == [0, 0, 0, pattern]
    assert pattern % 2 == 1
    assert found[0] == 1
    assert found[1].isnan()
    assert beyond[:16].tolist() == ints.tolist()
    assert set(beyond[16:].tolist()) == {-23131}
    assert [fault.kernel for fault in run.faults] == [
        "counts", "follows_addresses", "copies_a_block"
    ]  # fmt: skip


def test_faults_are_raised_by_default_and_others_in_any_case(raised) -> None:
    x, y = torch.zeros(10), torch.zeros(16)
    with kernellab.interpreted(), pytest.raises(OutOfBounds):
        copies[(2,)](x, y, BLOCK=8)
    with kernellab.interpreted(on_fault="collect") as run, pytest.raises(KernelFault):
        asserts[(1,)](x, BLOCK=1, debug=True)
    assert not run.faults
    error = raised(OptionError, kernellab.interpreted, on_fault="ignore", match="on_fault")


def test_only_some_hundreds_are_kept() -> None:
    faults = kernellab.interpreter.CollectedFaults()
    for number in range(1000):
        faults.add(number, "kernel", 2, lambda: kernellab.KernelLabError("out of bounds"))
    assert len(faults) == 300
    assert faults.left_out == 1400
    assert "1,400 more elements" in str(faults)
