"""What the interpreter does not know, it says: the operation, the kernel, and the kernel's line."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch
from xdsl.ir import Operation

import kernellab
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.codegen.emitter import RULES
from kernellab.ir import mlir, tt
from tests.kernels.interp import unsupported
from tests.support.source_lines import marked_line

NOT_LOWERED = {
    # Triton 3.7's front end writes none of it; the check for divisions by zero knows it.
    "arith.ceildivui",
    # The function around everything.
    "tt.func",
}


def operations(module: Any) -> set[type[Operation]]:
    found = (member for member in vars(module).values() if isinstance(member, type))
    return {m for m in found if issubclass(m, Operation) and "name" in vars(m)}


def test_operations_with_a_class_and_no_lowering() -> None:
    """A change of this list is a change of what the interpreter promises."""
    known = set().union(*map(operations, (mlir, mlir, mlir, mlir, mlir, tt, mlir)))
    assert len(known) > 120
    assert {op.name for op in known - set(RULES)} == NOT_LOWERED


X = torch.ones(64)
KERNELS: list[tuple[Any, tuple[Any, ...], str]] = [
    (unsupported.inline_assembly, (X,), "the PTX instruction 'wonder.b32'"),
    (unsupported.device_library, (X,), "the device function '__mine_twice'"),
    (unsupported.program_of_element, (X,), "tl.program_id in a function of elements"),
    (unsupported.packed_too_high, (X,), "tl.map_elementwise with pack=4"),
    (unsupported.waiting_element, (X,), "a loop that waits for other programs"),
]


@pytest.mark.parametrize(("kernel", "arguments", "what"), KERNELS, ids=[k[2] for k in KERNELS])
def test_the_error_names_the_operation_and_the_line(kernel, arguments, what) -> None:
    before = [argument.clone() for argument in arguments]
    with pytest.raises(UnsupportedOperation) as caught:
        kernellab.run(kernel, (1,), *arguments)
    error = caught.value
    assert what in error.problem
    assert repr(kernel.__name__) in error.problem
    assert error.position is not None
    assert error.position.file == unsupported.__file__
    assert error.position.line == marked_line(unsupported, f"UNSUPPORTED: {what}")
    assert "kernellab.compile" in error.advice
    for argument, untouched in zip(arguments, before):
        assert torch.equal(argument.view(torch.uint8), untouched.view(torch.uint8))
    assert traceback.format_exception(error)
