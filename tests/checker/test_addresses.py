"""Detectors hear of accesses through addresses as of any others, where they go to one tensor."""

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from tests.kernels.interp.waiting import locked_by_address


def addresses_of(*tensors: torch.Tensor) -> torch.Tensor:
    return torch.tensor([tensor.data_ptr() for tensor in tensors])


@pytest.mark.slow
def test_a_lock_out_of_a_list_of_pointers_orders_programs() -> None:
    locks = [torch.zeros(1, dtype=torch.int32) for _ in range(2)]
    total = torch.zeros(2, dtype=torch.int32)
    found = kernellab.check(locked_by_address, (7,), addresses_of(*locks), total, RELEASES=True)
    assert not found, str(found)


@triton.jit
def logarithms(outs_ptr, x_ptr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    out = tl.load(outs_ptr + program).to(tl.pointer_type(tl.float32))
    tl.store(out + lanes, tl.log(tl.load(x_ptr + program * BLOCK + lanes)))


def test_infinity_that_is_stored_through_a_pointer_from_memory() -> None:
    out, x = torch.zeros(4), torch.tensor([1.0, 2.0, 0.0, 3.0])
    (finding,) = kernellab.check(logarithms, (1,), addresses_of(out), x, BLOCK=4)
    assert (finding.kind, finding.index, finding.lane) == ("infinity", (2,), (2,))
    assert "memory[2] becomes -inf" in finding.message
