"""Every op class states its facts, so that no one who asks for them forgets a new one."""

import re
from collections.abc import Iterator
from inspect import getattr_static

import pytest
from xdsl.dialects import builtin
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.traits import MemoryEffect
from xdsl.utils.test_value import create_ssa_value

from kernellab.checker.checked_run import placing
from kernellab.ir import operations, tt
from kernellab.ir.syntax import context

CLASSES = [
    op for one in context().loaded_dialects if one.name != "builtin" for op in one.operations
]
MAY_DO_ANYTHING = {"tt.call"}
"""Whatever the function does that is called."""


def operand_names(kind: type[Operation]) -> set[str]:
    assert issubclass(kind, IRDLOperation)
    named = {name for name, _ in kind.get_irdl_definition().operands}
    members = ((name, getattr_static(kind, name)) for name in dir(kind))
    return named | {name for name, one in members if isinstance(one, property)}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_it_says_what_it_does_to_memory(kind: type[Operation]) -> None:
    """None of MLIR's effects among its traits would mean that it may do anything."""
    says = any(isinstance(one, MemoryEffect) for one in kind.traits)
    assert says == (kind.name not in MAY_DO_ANYTHING)


ACCESS_NAME = re.compile(
    r"(tt\.(load|store|atomic|descriptor)|(ttg|ttng|amdg)\.\w*(load|store|atomic|copy|gather|scatter|tma_reduce))"
    r"(?!\w*_(wait|mbarrier_arrive))"
)
GLOBAL_NAME = re.compile(
    r"tt\.(load|store|atomic|descriptor)|.*global|.*_tma_(?!store_wait)|amdg\.buffer"
)
LAYOUT_NAME = re.compile(r".*(convert_layout|transpose|splat|reshape|trans|broadcast|expand_dims)$")
IN_MEMORY = re.compile(r"ttg\.memdesc_")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_names_of_accesses_and_moves_have_their_traits(kind: type[Operation]) -> None:
    if ACCESS_NAME.match(kind.name):
        assert operations.touches_memory(kind.create()), "an access reads or writes memory"
    if GLOBAL_NAME.match(kind.name) and ACCESS_NAME.match(kind.name):
        assert kind.get_trait(operations.GlobalAccess), (
            "say by which operands it accesses global memory"
        )
    if LAYOUT_NAME.match(kind.name) and not IN_MEMORY.match(kind.name):
        assert kind.get_trait(operations.KeepsElements), "another shape or layout of the same tile"
    if issubclass(kind, IRDLOperation) and "combine" in dir(kind):
        assert kind.get_trait(operations.RegionsOfElements)


def accesses() -> Iterator[tuple[type[Operation], operations.GlobalAccess]]:
    for kind in CLASSES:
        access = kind.get_trait(operations.GlobalAccess)
        if access is not None:
            yield kind, access


@pytest.mark.parametrize(
    ("kind", "access"), list(accesses()), ids=lambda one: getattr(one, "name", "")
)
def test_an_access_names_operands_that_it_has(kind, access) -> None:
    names = operand_names(kind)
    assert {access.base, *access.where, *filter(None, (access.mask, access.value))} <= names
    assert ("mask" in names) == (access.mask is not None)
    writes = kind.get_trait(operations.GlobalWrite) is not None
    assert writes or kind.get_trait(operations.GlobalRead)
    assert writes or access.value is None
    assert isinstance(
        access, operations.PointerAccess if "pointer" in names else operations.DescriptorAccess
    )


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_what_moves_elements_names_operands_that_it_has(kind: type[Operation]) -> None:
    moved = kind.get_trait(operations.MovesElements)
    if moved is not None:
        assert set(moved.sources) <= operand_names(kind)
    if kind.get_trait(operations.KeepsElements):
        assert moved is not None
        assert moved.sources == ("operand",)
    if kind.name.startswith(("arith.", "math.")) and kind.name != "arith.constant":
        assert kind.get_trait(operations.Elementwise)


def test_places_of_accesses_that_slices_forgot() -> None:
    """`tt.atomic_poll` and rows of descriptors were in none of the lists of accesses."""
    pointer, other, column = (create_ssa_value(builtin.i32) for _ in range(3))
    poll = tt.AtomicPollOp.create(
        operands=[pointer, other], properties={}, result_types=[builtin.i1]
    )
    assert placing(poll) == [pointer]
    gather = tt.DescriptorGatherOp.create(
        operands=[pointer, other, column], result_types=[builtin.i32]
    )
    assert placing(gather) == [other, column]
    scatter = tt.DescriptorScatterOp.create(operands=[pointer, other, column, pointer])
    assert placing(scatter) == [other, column]
