"""Pointers that come out of memory or out of integers: where they lead, and where they may not."""

import gc
from typing import Any

import numpy as np
import pytest
import torch

import kernellab
from kernellab.errors import KernelFault
from tests.kernels.interp import pointers
from tests.support.source_lines import marked_line, position_of


def integers(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


def addresses_of(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([tensor.data_ptr() for tensor in tensors])


def fault(mark: str, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> str:
    """What a launch that has to fail says, on the line with that mark."""
    with pytest.raises(KernelFault) as caught:
        kernellab.run(kernel, grid, *arguments, **constants)
    assert position_of(caught.value).line == marked_line(pointers, f"FAULT: {mark}")
    return str(caught.value)


def test_a_list_of_tensors_of_several_sizes() -> None:
    """Tensors that are no arguments: one is found as a view, one as a parameter of a module."""
    sizes = [5, 16, 1, 40]
    layer = torch.nn.Linear(40, 1, bias=False)
    tensors = [torch.randn(5), torch.randn(20)[4:], torch.randn(1), layer.weight.data.view(-1)]
    before = [tensor.clone() for tensor in tensors]
    table = addresses_of(tensors)
    kernellab.run(pointers.grouped_add, (4,), table, torch.tensor(sizes), BLOCK=8)
    for number, (tensor, old) in enumerate(zip(tensors, before)):
        assert torch.equal(tensor, old + number)
    assert layer.weight[0, 7] == before[3][7] + 3


def test_a_tensor_for_each_lane() -> None:
    tensors = [torch.arange(8, dtype=torch.int32) + 10 * number for number in range(8)]
    table = addresses_of(tensors)
    table[3] = 0
    out = integers(8)
    kernellab.run(pointers.gathered, (1,), table, out, N=8)
    assert out.tolist() == [-1 if lane == 3 else 11 * lane for lane in range(8)]
    firsts = [int(tensor[0]) for tensor in tensors]
    assert firsts == [30 if lane == 3 else 100 * lane for lane in range(8)]


def test_an_address_as_an_argument() -> None:
    x, out = torch.arange(8, dtype=torch.int32), integers(4)
    kernellab.run(pointers.read_at, (1,), x.data_ptr() + 12, out, N=4)
    assert out.tolist() == [3, 4, 5, 6]


def test_numpy_arguments_that_share_memory() -> None:
    """The inner of two storages is part of the outer: a pointer into it may walk out of it."""
    memory = np.arange(8, dtype=np.int32)
    out = integers(4)
    kernellab.run(pointers.read_at, (1,), memory[4:6].ctypes.data, memory, N=4)
    assert memory[:4].tolist() == [4, 5, 6, 7]
    x = torch.from_numpy(memory)
    kernellab.run(pointers.read_at, (1,), x.data_ptr(), out, N=4)
    assert out.tolist() == memory[:4].tolist()


def read_at(address: int, out: torch.Tensor) -> str:
    return fault("read_at", pointers.read_at, (1,), address, out, N=4)


@pytest.mark.slow
def test_addresses_that_are_null_not_aligned_or_half_outside(messages) -> None:
    x, out, short = integers(8), integers(4), torch.zeros(7, dtype=torch.int16)
    across = read_at(short.data_ptr(), short)
    assert "out_ptr" in across
    assert "element 3 of the tile" in across
    assert (read_at(0, out), across, read_at(x.data_ptr() + 2, out)) == messages


def test_beyond_the_end_of_a_tensor() -> None:
    x, out = integers(8), torch.full((4,), -1, dtype=torch.int32)
    address = x.data_ptr() + 24
    problem = read_at(address, out)
    assert f"address {address + 8:#x}, where no tensor is" in problem
    assert (
        "of a tensor that is not an argument (int32, shape (8,)), ends 0 bytes before it" in problem
    )
    assert "element 2 of the tile" in problem
    assert out.tolist() == [-1] * 4


@pytest.mark.slow
def test_a_tensor_that_is_gone() -> None:
    """Memory that Python holds no tensor for is no one's, even where it is mapped."""
    x = integers(1 << 20)
    address = x.data_ptr()
    del x
    gc.collect()
    assert "where no tensor is" in read_at(address, integers(4))


def test_a_wild_store_writes_nothing() -> None:
    """The first lanes would be right, and the second program is wrong."""
    tensors = [integers(2) for _ in range(4)]
    table = addresses_of(tensors)
    problem = fault("write_everywhere", pointers.write_everywhere, (3,), table, N=4)
    assert "program (2, 0, 0) of grid (3, 1, 1), element 0 of the tile" in problem
    assert not any(tensor.any() for tensor in tensors)
    kernellab.run(pointers.write_everywhere, (2,), table, N=4)
    assert all(tensor.tolist() == [7, 7] for tensor in tensors)


def test_a_fault_of_a_chosen_argument_is_an_address_with_a_name() -> None:
    x, y = integers(1), integers(4)
    problem = fault("write_chosen", pointers.write_chosen, (1,), x, y)
    assert "nearest storage, of x_ptr (int32, shape (1,)), ends 0 bytes before it" in problem
    assert not x.any()
    assert not y.any()
    x, array = integers(4), np.zeros(4, np.int32)
    array.flags.writeable = False
    problem = fault("write_chosen", pointers.write_chosen, (1,), x, array)
    assert "'y_ptr', a NumPy array that is read-only" in problem
    assert not x.any()


def test_hundreds_of_tensors_are_reached_at_once() -> None:
    """One access to all, not one for each: of a launch with 300, the table is looked up."""
    tensors = [torch.full((64,), float(number)) for number in range(300)]
    table, sizes = addresses_of(tensors), torch.full((300,), 64)
    kernellab.run(pointers.grouped_add, (300,), table, sizes, BLOCK=64)
    assert all(torch.equal(t, torch.full((64,), 2.0 * n)) for n, t in enumerate(tensors))
