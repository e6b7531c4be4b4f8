"""What is told of a descriptor that the copy engine cannot take;
Triton's own class for the host says the same of one made there.
"""

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from tests.checker.corpus.descriptor_alignment import HALF, TILE, copied, row_by_row
from tests.checker.launches import normal, zeros


@pytest.mark.parametrize("stride", [64, 71, 72, 76, 80])
def test_a_stride_is_told_where_the_class_for_the_host_refuses_it(stride) -> None:
    x, out = normal(33, stride, dtype=HALF), zeros(32, 64, dtype=HALF)
    found = kernellab.check(copied, (1,), x, out, 33, 64, stride, **TILE)
    try:
        TensorDescriptor(x, [33, 64], [stride, 1], [32, 64])
        refused = False
    except AssertionError as error:
        refused = "strides must be 16-byte aligned" in str(error)
    assert [one.kind for one in found] == ["descriptor-alignment"] * refused


def test_the_message_has_the_numbers(messages) -> None:
    x, out = normal(33, 71, dtype=HALF), zeros(32, 64, dtype=HALF)
    (finding,) = kernellab.check(copied, (1,), x, out, 33, 71, 71, **TILE)
    assert finding.message == messages
    assert finding.argument == "x_ptr"
    (finding,) = kernellab.check(row_by_row, (4,), normal(4, 63), zeros(4, 64), 63, BLOCK=64)
    assert finding.programs == ((1, 0, 0), (2, 0, 0), (3, 0, 0))
    assert finding.message == messages


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_where_there_is_no_copy_engine_it_is_no_fault(target) -> None:
    x, out = normal(33, 71), zeros(32, 64)
    found = kernellab.check(copied, (1,), x, out, 33, 71, 71, **TILE, target=target)
    assert not found, str(found)
    assert torch.equal(x, normal(33, 71))
