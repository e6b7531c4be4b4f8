"""Find hints and assertions that are false, and tensor descriptors that are misaligned."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy
import torch
from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab import triton_api
from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.kernel_source import NotReadable, Source, mask_argument
from kernellab.checker.records import Finding, Proposal
from kernellab.checker.shadow_values import Array, whole_tile, with_program_axis
from kernellab.common.text import called
from kernellab.compiler.modules import underlying_argument
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.targets import has_copy_engine
from kernellab.errors import KernelLabError, SourcePosition
from kernellab.interpreter.affine import AffineTile, as_array
from kernellab.interpreter.codegen.indices import variable_of
from kernellab.interpreter.execution.program import ProgramCode, per_code
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.descriptors import Descriptor
from kernellab.interpreter.tiles import Value
from kernellab.ir import flow, mlir, operations, tt
from kernellab.ir.types import is_pointer, shape
from kernellab.records.layouts import Numbers

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

# Find the hints in a kernel's source. In the IR, a hint is an attribute of the operation that
# computed the value, which may be on an earlier line.


HINTS = ("multiple_of", "max_contiguous", "max_constancy")
"""The functions of triton.language that state hints about values."""


@dataclass(frozen=True)
class HintCall:
    """A call of one of `HINTS`.

    Attributes:
        lines: first and last line of the value that it applies to.
        name: the variable of this value; None for an expression.
    """

    hint: str
    position: SourcePosition
    lines: tuple[int, int]
    name: str | None


def call_of_hint(
    kernel: Any, hint: str, made: operations.Location | None, name: str | None
) -> SourcePosition | None:
    """Where `hint` was given to a value; None if the source does not show it.

    Args:
        made: where the value was made; None for one that a loop carries.
    """
    functions = triton_api.reachable_functions(kernel)
    calls = [call for function in functions for call in _calls_in(function) if call.hint == hint]
    of_name = [call.position for call in calls if call.name is not None and call.name == name]
    if made is None or not made.frames:
        return next(iter(of_name), None)
    file, line = made.frames[0].file, made.frames[0].line
    for call in calls:
        if (
            call.name is None
            and call.position.file == file
            and call.lines[0] <= line <= call.lines[1]
        ):
            return call.position
    later = (place for place in of_name if place.file == file and place.line >= line)
    return min(later, key=lambda position: position.line, default=None)


def _calls_in(function: Any) -> Iterator[HintCall]:
    for node in ast.walk(function.parse()):
        if isinstance(node, ast.Call) and (hint := _hint(node)) is not None:
            about = node.args[0]
            while isinstance(about, ast.Call) and _hint(about) is not None:
                about = about.args[0]
            position = triton_api.position_in(function, node)
            first = triton_api.position_in(function, about).line
            last = first + (about.end_lineno or about.lineno) - about.lineno
            name = about.id if isinstance(about, ast.Name) else None
            yield HintCall(hint, position, (first, last), name)


def _hint(call: ast.Call) -> str | None:
    name = called(call)
    return name if name in HINTS and call.args else None


# Find hints to the compiler that are false: `tl.multiple_of`, `tl.max_contiguous`,
# `tl.max_constancy`, `tl.assume`.


_ATTRIBUTES = {
    "tt.divisibility": "multiple_of",
    "tt.contiguity": "max_contiguous",
    "tt.constancy": "max_constancy",
}
"""The attribute of a hint in the IR -> its function, in the order of `_Promise.numbers`."""

_HINT_ADVICE = (
    "Correct the hint or remove it. The compiler relies on it: on a GPU, accesses that depend on "
    "it read and write other elements, or are misaligned."
)


_HARMLESS = (
    "The hint on line {0} is false ({1}), and changes nothing: without it, the code for {2} is the "
    "same."
)


@dataclass(frozen=True)
class _Promise:
    """The hints for one value: by hint, a number for each dimension; a scalar has one dimension."""

    value: SSAValue
    numbers: Mapping[str, tuple[int, ...]]


class _Broken(NamedTuple):
    """The elements of a tile for which a hint is false: which hint, which dimension, where."""

    hint: str
    dimension: int
    elements: Array


class BrokenHints(Detector):
    """Compare values with the hints that were given for them.

    Hints for indices that wrap, `offsets % n` of a matmul, count as far as the compiler
    uses them: for vector accesses of 16 bytes. If n is a multiple of such a vector, every vector is
    aligned and consecutive, also in the block that wraps.
    """

    kinds = ("broken-hint",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._promises: dict[Operation, tuple[_Promise, ...]] = {}
        self._carried: dict[Operation, Sequence[Value]] = {}
        self._wrapped: set[str] = set()
        """The messages about indices that wrap."""

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is an assumption, or a loop or a result with a hint."""
        if isinstance(operation, mlir.AssumeOp):
            return True
        if isinstance(operation, mlir.YieldOp) and isinstance(
            loop := operation.parent_op(), mlir.ForOp
        ):
            return bool(_promises(loop))
        return bool(_promises(operation))

    def computed(self, computed: Computed) -> None:
        op = computed.operation
        match op:
            case mlir.AssumeOp():
                self._see_assumption(computed)
            case mlir.ForOp():
                self._see_carried(computed, op, computed.operands[3:])
                self._carried.pop(op, None)
            case mlir.YieldOp():
                loop = computed.operation.parent_op()
                assert loop is not None
                if loop in self._carried:
                    of_loop = dataclasses.replace(computed, operation=loop)
                    self._see_carried(of_loop, loop, self._carried[loop])
                self._carried[loop] = computed.operands
            case _:
                for promise in self._promises_of(op):
                    self._see_value(computed, promise, computed.results[0])

    def _promises_of(self, op: Operation) -> tuple[_Promise, ...]:
        if op not in self._promises:
            promises = _promises(op)
            if isinstance(op, _REMAINDERS) and not _is_divided(op.results[0]):
                most = _elements_of_a_vector(self.run.code)
                promises = tuple(_limited(promise, most) for promise in promises)
            self._promises[op] = promises
        return self._promises[op]

    def investigate(self, session: CheckSession) -> None:
        """Turn hints for indices that wrap into notes, if the code without them is the same, and
        they promise no wider accesses, which larger blocks would have.
        """
        text = plain = str(self.run.kernel.src)
        for finding in [each for each in self.findings() if each.what in self._wrapped]:
            shorter = self._without(finding, text)
            if shorter is not None and self._are_alike(shorter, plain):
                text = shorter
                self.collector.forget(finding.what)
                self.notes += (_HARMLESS.format(finding.line, finding.what, self.run.target),)

    def _without(self, finding: Finding, text: str) -> str | None:
        """Return the kernel's source without the hint of a finding; None if it is not there."""
        source, first = Source(text, {}), triton_api.definition_of(self.run.kernel)
        hint = next((name for name in HINTS if finding.what.startswith(f"tl.{name} ")), None)
        place = finding.position
        if hint is not None and place is not None and place.file == first.file:
            with suppress(NotReadable):
                for call in source.calls(hint):
                    if call.lineno == place.line - first.line + 1 and call.args:
                        return source.replaced((call, source.of(call.args[0])))
        return None

    def _are_alike(self, *texts: str) -> bool:
        """Return whether sources of the kernel have the same instructions and runs of addresses."""
        seen = []
        for text in texts:
            kernel = triton_api.with_source(self.run.kernel, text)
            with suppress(KernelLabError):
                made = compile_bound(kernel, self.run.call, self.run.target)
                code = made.stages["ptx" if "ptx" in made.stages else "amdgcn"].text
                lines = (line.strip() for line in code.splitlines())
                runs = [each.runs for each in made.axis_info().accesses]
                seen.append((runs, [line for line in lines if not line.startswith(".loc")]))
        return len(seen) == len(texts) and seen.count(seen[0]) == len(seen)

    # Assumptions

    def _see_assumption(self, computed: Computed) -> None:
        broken = ~numpy.asarray(computed.operands[0], numpy.bool_) & computed.taking_part(0)
        if not broken.any():
            return

        def facts_of(_place: tuple[int, ...], _program: int) -> Mapping[str, Any]:
            advice = (
                "Correct the assumption or remove it. The compiler relies on it: on a GPU, it may "
                "remove code that is needed only if the condition is false."
            )
            message = "the condition of this tl.assume is false"
            return {"message": message, "advice": advice}

        self.collector.report(computed, broken, 0, facts_of)

    # Hints on the values that a loop carries

    def _see_carried(self, computed: Computed, loop: Operation, carried: Sequence[Value]) -> None:
        for promise in self._promises_of(loop):
            assert isinstance(promise.value, BlockArgument)
            self._see_value(computed, promise, carried[promise.value.index - 1])

    # Hints on values

    def _see_value(self, computed: Computed, promise: _Promise, value: Value) -> None:
        extents, is_address = shape(promise.value.type), is_pointer(promise.value.type)
        if isinstance(value, AffineTile) and not is_address and _keeps(value, promise, extents):
            return
        whole = _whole(value, extents)
        placed = self._in_bytes(promise.value, whole) if is_address else whole
        for broken in _broken(whole, placed, promise):
            elements = broken.elements & computed.taking_part(broken.elements.ndim - 1)
            if elements.any():
                shown = placed if broken.hint == "multiple_of" and placed is not None else whole
                self._report(computed, broken._replace(elements=elements), shown, promise)

    def _in_bytes(self, pointer: SSAValue, offsets: Array) -> Array | None:
        """Return the addresses of elements; None if their argument is not known."""
        tensor = self.run.call.values.get(underlying_argument(pointer))
        if not isinstance(tensor, torch.Tensor):
            return None
        return offsets * tensor.element_size() + int(tensor.data_ptr())

    def _report(
        self, computed: Computed, broken: _Broken, values: Array, promise: _Promise
    ) -> None:
        about = promise.value

        def facts_of(place: tuple[int, ...], program: int) -> Mapping[str, Any]:
            at = (program, *place) if about_a_tile else (program, 0)
            where = tuple(min(i, extent - 1) for i, extent in zip(at, values.shape))
            location = (
                operations.locate(about.owner.location) if isinstance(about, OpResult) else None
            )
            message = _format_broken(broken, values, where, promise)
            if isinstance(about.owner, _REMAINDERS) and not _is_divided(about):
                self._wrapped.add(message)
            facts = {"message": message, "advice": _HINT_ADVICE, "values": {}}
            position = call_of_hint(self.run.kernel, broken.hint, location, variable_of(about))
            return facts if position is None else {**facts, "position": position}

        about_a_tile = bool(shape(about.type))
        faulty = broken.elements if about_a_tile else broken.elements[:, 0]
        self.collector.report(computed, faulty, len(shape(about.type)), facts_of, broken.hint)


def _numbers(attribute: Any) -> tuple[int, ...]:
    if isinstance(attribute, builtin.IntegerAttr):
        return (attribute.value.data,)
    return tuple(int(number) for number in attribute.get_values())


def _promises(op: Operation) -> tuple[_Promise, ...]:
    if isinstance(op, mlir.ForOp):
        carried = ((value, f"_arg{value.index}") for value in op.block.args[1:])
        promises = [_promise(op, value, suffix) for value, suffix in carried]
    else:
        promises = [_promise(op, value, "") for value in op.results[:1]]
    return tuple(promise for promise in promises if promise is not None)


def _promise(op: Operation, value: SSAValue, suffix: str) -> _Promise | None:
    nothing = (1,) * max(len(shape(value.type)), 1)
    numbers = {
        hint: _numbers(op.attributes[name + suffix]) if name + suffix in op.attributes else nothing
        for name, hint in _ATTRIBUTES.items()
    }
    has_hints = any(name + suffix in op.attributes for name in _ATTRIBUTES)
    return _Promise(value, numbers) if has_hints else None


_VECTOR_BYTES = 16
"""The most bytes that one thread loads or stores at once, on NVIDIA and AMD GPUs."""

_REMAINDERS = (mlir.RemSIOp, mlir.RemUIOp)
_DIVISIONS = (*_REMAINDERS, mlir.DivSIOp, mlir.DivUIOp, mlir.ShRSIOp, mlir.ShRUIOp)


@per_code
def _elements_of_a_vector(code: ProgramCode) -> int:
    """Return how many of the smallest elements that the code accesses are in a vector."""
    types = (
        getattr(value.type, "element_type", value.type)
        for op in code.module.walk()
        if operations.has(op, operations.GlobalAccess)
        for value in (*op.operands, *op.results)
    )
    bits = [kind.bitwidth for kind in types if isinstance(kind, builtin.FixedBitwidthType)]
    return 8 * _VECTOR_BYTES // min((size for size in bits if size >= 8), default=8)


def _limited(promise: _Promise, most: int) -> _Promise:
    if not shape(promise.value.type):
        return promise
    numbers = {
        hint: tuple(math.gcd(number, most) for number in each)
        for hint, each in promise.numbers.items()
    }
    return dataclasses.replace(promise, numbers=numbers)


def _is_divided(value: SSAValue) -> bool:
    """Return whether a division, perhaps after sums and reshapes, makes larger hints matter."""

    def step(value: SSAValue) -> Iterator[SSAValue]:
        return (result for use in value.uses for result in use.operation.results)

    followed = flow.reached([value], step)
    return any(isinstance(use.operation, _DIVISIONS) for made in followed for use in made.uses)


def _whole(value: Any, extents: tuple[int, ...]) -> Array:
    """Return a tile with all its elements, programs first; a scalar as a tile of one element."""
    whole = whole_tile(value, extents)
    return whole if extents else whole.reshape(-1, 1)


def _keeps(tile: AffineTile, promise: _Promise, extents: tuple[int, ...]) -> bool:
    """Return True if the strides alone show that the hints are true."""
    divisibility, contiguity, constancy = promise.numbers.values()
    for d, (stride, extent) in enumerate(zip(tile.strides, extents)):
        if contiguity[d] > 1 and extent > 1 and stride != 1:
            return False
        if constancy[d] > 1 and stride != 0:
            return False
    largest = max(divisibility)
    if largest == 1:
        return True
    return not (as_array(tile.base) % largest).any() and all(
        stride % largest == 0 or (stride == 1 and contiguity[d] % largest == 0)
        for d, stride in enumerate(tile.strides)
    )


def _broken(values: Array, placed: Array | None, promise: _Promise) -> list[_Broken]:
    """Return the hints that are false for a tile; `placed` are the values or their addresses."""
    divisibility, contiguity, constancy = promise.numbers.values()
    broken = []
    for d in range(values.ndim - 1):
        rows = numpy.moveaxis(values, d + 1, -1)
        if contiguity[d] > 1:
            broken.append(_Broken("max_contiguous", d, _breaks(rows, contiguity[d], 1, d)))
        if constancy[d] > 1:
            broken.append(_Broken("max_constancy", d, _breaks(rows, constancy[d], 0, d)))
        if divisibility[d] > 1 and placed is not None:
            run = contiguity[d]
            starts = numpy.ones(rows.shape, numpy.bool_)
            if run > 1:
                starts[..., :] = numpy.arange(rows.shape[-1]) % run == 0
            else:
                starts[..., 1:] = rows[..., 1:] - rows[..., :-1] != 1
            wrong = (numpy.moveaxis(placed, d + 1, -1) % divisibility[d] != 0) & starts
            broken.append(_Broken("multiple_of", d, numpy.moveaxis(wrong, -1, d + 1)))
    return [hint for hint in broken if hint.elements.any()]


def _breaks(rows: Array, run: int, step: int, dimension: int) -> Array:
    """Return which elements of a run do not differ by `step` from the element before them."""
    wrong = numpy.zeros(rows.shape, numpy.bool_)
    wrong[..., 1:] = rows[..., 1:] - rows[..., :-1] != step
    wrong[..., ::run] = False
    return numpy.moveaxis(wrong, -1, dimension + 1)


def _format_broken(
    broken: _Broken, values: Array, where: tuple[int, ...], promise: _Promise
) -> str:
    name = variable_of(promise.value)
    what = f"`{name}`" if name else "the value"
    promised = promise.numbers[broken.hint][broken.dimension]
    value, is_tile = int(values[where]), bool(shape(promise.value.type))
    if broken.hint == "multiple_of":
        if is_pointer(promise.value.type):
            multiple = f"a multiple of {promised} bytes"
            actual = f"{value % promised} bytes past one"
        else:
            multiple, actual = f"a multiple of {promised}", f"{value:,}"
        if is_tile:
            return (
                f"tl.multiple_of promises that each run of consecutive values in {what} starts at "
                f"{multiple}, but one starts at {actual}"
            )
        return f"tl.multiple_of promises that {what} is {multiple}, but it is {actual}"
    axis = broken.dimension + 1
    before = int(values[(*where[:axis], where[axis] - 1, *where[axis + 1 :])])
    place = where[1:] if len(where) > 2 else where[1]
    along = f" along dimension {broken.dimension}" if len(where) > 2 else ""
    run = "consecutive" if broken.hint == "max_contiguous" else "equal"
    return (
        f"tl.{broken.hint} promises runs of {promised} {run} values{along} in {what}, but element "
        f"{place} is {value:,} and the element before it is {before:,}"
    )


class FailedAssertion(Detector):
    """Report elements for which a `tl.device_assert` is false; the run continues."""

    kinds = ("failed-assertion",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._on: dict[Operation, Array] = {}
        """Of each masked load, the elements that it enables."""

    def before(self, access: CheckedAccess) -> None:
        op = access.operation
        if isinstance(op, tt.LoadOp) and op.mask is not None and access.request.mask is not None:
            self._on[op] = with_program_axis(access.request.mask, access.rank)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        return isinstance(operation, tt.AssertOp)

    def computed(self, computed: Computed) -> None:
        op = computed.operation
        assert isinstance(op, tt.AssertOp)
        rank = len(shape(op.condition.type))
        failed = ~numpy.asarray(computed.operands[0], numpy.bool_) & computed.taking_part(rank)
        if not failed.any():
            return

        disabling = self._disabling(op, failed)

        def facts_of(_place: tuple[int, ...], _program: int) -> Mapping[str, Any]:
            message = "this assertion is false"
            if op.message.data:
                message += f": {op.message.data}"
            if disabling is None:
                return {"message": message} | _ASSERTION_ADVICE
            line = operations.locate(disabling.location).frames[-1].line
            message += f"; it is false only for elements that the mask of the load on line {line} "
            facts: dict[str, Any] = {"message": f"{message}disables"}
            return facts | _ASSERTION_ADVICE | dict(self._masked(line))

        self.collector.report(computed, failed, rank, facts_of)

    def _disabling(self, op: tt.AssertOp, failed: Array) -> Operation | None:
        """Return the load behind a condition whose mask disables all elements that fail."""
        waiting: list[SSAValue] = [op.condition]
        while waiting:
            owner = waiting.pop().owner
            if not isinstance(owner, Operation):
                continue
            if owner in self._on:
                return None if numpy.any(failed & self._on[owner]) else owner
            if operations.has(owner, operations.Elementwise):
                waiting += owner.operands
        return None

    def _masked(self, line: int) -> Mapping[str, Any]:
        source = Source(str(self.run.kernel.src), self.run.call.values)
        first = triton_api.definition_of(self.run.kernel).line
        for call in source.calls("load"):
            mask = mask_argument(call)
            if mask is not None and call.lineno + first - 1 == line:
                text = source.of(mask)
                return {"proposals": (Proposal(f"Pass mask={text}.", "", text, "mask", True),)}
        return {}


_ASSERTION_ADVICE = {
    "advice": (
        "Check the values in the condition. With debug=True (or TRITON_DEBUG=1), a GPU stops here; "
        "without it, Triton removes the assertion and the kernel continues."
    )
}

# Find tensor descriptors whose base address or strides are misaligned for TMA.
#
# Triton documents the requirement for `tl.make_tensor_descriptor` and leaves it to the caller.
# The class for descriptors made on the host checks it, but nothing checks a descriptor that the
# kernel makes: TMA keeps addresses and strides in units of 16 bytes, so a GPU moves other
# elements, or stops. GPUs without TMA load through pointers, which need no alignment.


UNIT = 16
"""Bytes of which addresses and strides are multiples: CUDA driver API, cuTensorMapEncodeTiled."""


class DescriptorAlignment(Detector):
    """Check each descriptor that the kernel makes, and where each block begins in its row."""

    kinds = ("descriptor-alignment",)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        """Return whether the target has TMA; other GPUs load through pointers."""
        return has_copy_engine(run.target)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        return isinstance(operation, tt.MakeTensorDescOp) or operations.has(
            operation, operations.DescriptorAccess
        )

    def computed(self, computed: Computed) -> None:
        op = computed.operation
        if isinstance(op, tt.MakeTensorDescOp):
            (descriptor,) = computed.results
            assert isinstance(descriptor, Descriptor)
            self._check(computed, descriptor, None, _address(descriptor))
            for dimension, stride in enumerate(descriptor.strides[:-1]):
                self._check(computed, descriptor, dimension, _bytes(descriptor, stride))
            return
        descriptor = computed.operands[0]
        assert isinstance(descriptor, Descriptor)
        access = operations.trait_of(op, operations.DescriptorAccess)
        assert access is not None
        last = access.indices_of(op)[-1]
        offsets = computed.operands[list(op.operands).index(last)]
        self._check(computed, descriptor, "offset", _bytes(descriptor, offsets))

    def _check(
        self,
        computed: Computed,
        descriptor: Descriptor,
        what: int | Literal["offset"] | None,
        sizes: Numbers,
    ) -> None:
        """Report sizes that are not multiples of 16 bytes; `what` None is the base address."""
        faulty = (sizes % UNIT != 0) & computed.taking_part(0)
        if not faulty.any():
            return

        def facts_of(_place: tuple[int, ...], program: int) -> dict[str, Any]:
            size = int(sizes if sizes.ndim == 0 else sizes[program])
            elements = f"{size // descriptor.dtype.itemsize:,} elements ({size:,} bytes)"
            message = "this tensor descriptor is misaligned for TMA: its "
            if what is None:
                message += f"base address is {size % UNIT} bytes past a multiple of {UNIT}"
            elif what == "offset":
                message = (
                    f"the block starts {elements} into its row, and Triton requires that the last "
                    f"offset of a descriptor's block is a multiple of {UNIT} bytes"
                )
            else:
                message += f"stride along dimension {what} is {elements}, which is not a multiple "
                message += f"of {UNIT} bytes"
            return {
                "argument": descriptor.buffer.name if isinstance(descriptor.buffer, Buffer) else "",
                "message": message,
                "advice": _ALIGNMENT_ADVICE.get(what, _STRIDE_ADVICE),
                "severity": "warning" if what == "offset" else "error",
            }

        self.collector.report(computed, faulty, 0, facts_of, "base" if what is None else what)


def _bytes(descriptor: Descriptor, elements: Any) -> Numbers:
    return numpy.asarray(elements, numpy.int64) * descriptor.dtype.itemsize


def _address(descriptor: Descriptor) -> Numbers:
    """Return the base address, or a number with the same remainder modulo 16."""
    start = numpy.asarray(descriptor.start, numpy.int64)
    if not isinstance(descriptor.buffer, Buffer):
        return start
    return start * descriptor.dtype.itemsize + descriptor.buffer.tensor.data_ptr() % UNIT


_ALIGNMENT_ADVICE: dict[int | str | None, str] = {
    None: "Start the descriptor at an address that is a multiple of 16 bytes, and add the rest of "
    "the offset to the indices of the block.",
    "offset": "Start the block at a multiple of 16 bytes and skip the elements before the first, "
    "or load through pointers with a mask. Triton's interpreter refuses such a block.",
}
_STRIDE_ADVICE = (
    "Pad the tensor so that this stride is a multiple of 16 bytes, or load through pointers with a "
    "mask."
)


class RepeatedRandom(Detector):
    """Note random numbers that several programs draw alike, as in a dropout without a program id.

    They may be meant to be the same, so this is not a fault.
    """

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._alike: dict[int, bool] = {}
        """By line, whether the numbers of all programs are the same."""

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return run.programs > 1

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation belongs to Triton's random numbers."""
        return isinstance(operation, tt.MulhiUIOp) and any(
            _IN_RANDOM.search(frame.file) for frame in operations.locate(operation.location).frames
        )

    def computed(self, computed: Computed) -> None:
        """Compare the programs' tiles in a round: in some, they differ if seeds or offsets do."""
        if computed.programs is not None and len(computed.programs.linear) == 1:
            return
        (drawn,) = map(numpy.asarray, computed.results)
        rank = len(shape(computed.operation.results[0].type))
        tiles = drawn.reshape(1, -1) if drawn.ndim == rank else drawn.reshape(len(drawn), -1)
        line = operations.locate(computed.operation.location).frames[-1].line
        if tiles.shape[1] > 1:
            is_alike = bool((tiles == tiles[:1]).all())
            self._alike[line] = self._alike.get(line, True) and is_alike

    def end(self) -> None:
        self.notes = tuple(
            f"The random numbers of line {line} are the same in every program, because their seed "
            "and offsets are. If each element needs its own, add tl.program_id(0) times the size "
            "of the block to the offsets."
            for line, is_alike in self._alike.items()
            if is_alike
        )


_IN_RANDOM = re.compile(r"triton[/\\]language[/\\]random\.py$")
