"""In the judging process: a submission's steps are repeated with the real inputs, and each byte of
memory has an origin, the line that wrote it last.

Only launches, copies and fills are repeated. What torch computed in the confined process is not
computed here: its memory holds NaN, and its origin says so.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Literal

import numpy
import torch

from kernellab import triton_api
from kernellab.compiler.binding import BoundCall, bind
from kernellab.compiler.modules import position_of
from kernellab.errors import Diagnostic, KernelLabError, SourcePosition
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import program_code
from kernellab.interpreter.memory.address_space import only_reachable
from kernellab.interpreter.memory.global_memory import lanes_on
from kernellab.interpreter.memory.observers import AccessObserver, ObservedAccess
from kernellab.interpreter.tiles import full
from kernellab.ir.operations import global_effect
from kernellab.judging.code import MOST_CONFIGS, TensorView
from kernellab.judging.submissions import Refused
from kernellab.launch.argument_copies import ALIGNMENT
from kernellab.records import Target
from kernellab.triton_api.compilation import descriptor_of, dtype_named


class BadRecord(Exception):
    """A record that no recorder writes: the submission forged it."""


@contextmanager
def reading_record(part: str) -> Iterator[None]:
    """Raise BadRecord for the errors that reading a part of a record of another form raises."""
    try:
        yield
    except KernelLabError:
        raise
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError,
        RuntimeError,
    ) as e:  # fmt: skip
        raise BadRecord(part) from e


def check_record(record: Mapping[str, Any], calls: int) -> None:
    """Raise BadRecord unless a record has lists of steps for the setup, for so many calls and for
    each further config of the first.
    """
    with reading_record("the lists of steps"):
        calls += min(range(1, 1 << 20).index(record["configs"]), MOST_CONFIGS - 1)
        lists = [record["setup"], *(call["steps"] for call in record["calls"])]
        steps = [step for each in lists for step in each]
        if len(lists) != 1 + calls or not all(isinstance(step, dict) for step in steps):
            raise BadRecord("the lists of steps")


_LONGEST = 1_000
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
"""Bytes of an element -> a dtype of this size, to move elements of any dtype."""
_OWN = MAP_PRIVATE | MAP_ANONYMOUS
"""Mapped memory begins above 4 GiB, unlike some heaps: Triton takes other addresses for int32."""
LARGEST_MEMORY = 1 << 30
"""The most bytes of all storages of a record."""


@dataclass(frozen=True)
class Writer:
    """The last writer of a byte.

    Attributes:
        kind: a kernel's store, a fill, a function of torch, the input, or nothing.
        name: of the kernel, or of the function of torch.
        call: the number of the call in which it happened.
        position: its line.
    """

    kind: Literal["nothing", "input", "fill", "kernel", "torch"]
    name: str = ""
    call: int = -1
    position: SourcePosition | None = None


@dataclass(frozen=True)
class RecordedLaunch:
    """A launch of a record, bound to the memory here."""

    kernel: Any
    grid: tuple[int, int, int]
    call: BoundCall
    position: SourcePosition | None


class Memory:
    """The storages of a record, and who wrote each byte."""

    def __init__(self, sizes: Sequence[int]) -> None:
        if not all(type(size) is int and size >= 0 for size in sizes) or (
            sum(sizes) > LARGEST_MEMORY
        ):
            raise BadRecord("storages")
        self.bytes = [
            numpy.frombuffer(mmap(-1, size + ALIGNMENT, flags=_OWN), numpy.uint8)[:size]
            for size in sizes
        ]
        for memory in self.bytes:
            memory.fill(0xFF)
        self.tensors = [*map(torch.from_numpy, self.bytes)]  # which tables of pointers lead to
        self.codes = [numpy.zeros(size, numpy.int32) for size in sizes]
        self.writers: list[Writer] = [Writer("nothing")]
        self._known: dict[Writer, int] = {self.writers[0]: 0}

    def code(self, writer: Writer) -> int:
        """Return the number that stands for a writer."""
        if writer not in self._known:
            self._known[writer] = len(self.writers)
            self.writers.append(writer)
        return self._known[writer]

    def load(self, number: int, content: torch.Tensor, call: int) -> None:
        """Put the bytes of an input into a storage."""
        with reading_record("the storage of an input"):
            self.bytes[number][...] = content.numpy()
            self.codes[number][...] = self.code(Writer("input", call=call))

    def tensor(self, view: TensorView) -> torch.Tensor:
        """Return a view of the memory.

        Raises:
            BadRecord: it leaves its storage, or has more elements than all memory.
        """
        size = view.dtype.itemsize
        if math.prod(view.shape) * size > LARGEST_MEMORY:
            raise BadRecord("a view")
        with reading_record("a view"):
            memory = self.tensors[view.storage]
            flat = memory[: len(memory) // size * size].view(view.dtype)
            return flat.as_strided(view.shape, view.strides, view.offset)

    def codes_of(self, view: TensorView) -> numpy.ndarray:
        """Return a view of the numbers of the writers: the shape of the tensor, then its bytes."""
        self.tensor(view)  # whose bounds are checked
        size = view.dtype.itemsize
        codes = self.codes[view.storage][view.offset * size :]
        strides = tuple(stride * size * codes.itemsize for stride in view.strides)
        return numpy.lib.stride_tricks.as_strided(
            codes, (*view.shape, size), (*strides, codes.itemsize)
        )

    def is_unwritten(self, tensor: torch.Tensor) -> bool:
        """Return whether nothing has written to the storage of a view."""
        start = tensor.untyped_storage().data_ptr()
        for memory, codes in zip(self.bytes, self.codes):
            if memory.ctypes.data == start:
                return not codes.any()
        return False

    def writers_of(self, view: TensorView) -> tuple[numpy.ndarray, list[Writer]]:
        """Return the number of each element's writer, and the writers that there are."""
        if 0 in view.shape:
            return numpy.zeros(view.shape, numpy.int32), []
        codes = self.codes_of(view)[..., 0]
        return codes, [self.writers[code] for code in numpy.unique(codes)]


class Replay:
    """The calls of a record, repeated one after the other in one memory.

    Attributes:
        memory: the memory of the calls.
        computed: a value of torch that a kernel loaded, as its writer; None if there is none.
    """

    def __init__(self, record: Mapping[str, Any], target: Target, file: str) -> None:
        self._record = record
        self._target = target
        self._file = file
        self._kernels: dict[tuple[int, int | None], Any] = {}
        with reading_record("storages"):
            self.memory = Memory(record["storages"])
        self.computed: Writer | None = None
        self._bases = [memory.ctypes.data for memory in self.memory.bytes]

    def setup(self) -> None:
        """Repeat the submission's steps before its first call, when its parameters are loaded."""
        for _ in self.steps(self._record["setup"], -1):
            pass

    def bound(self, most: int) -> Iterator[RecordedLaunch]:
        """Yield a launch of each module of the first `most` calls; none of them runs."""
        seen = set()
        calls = self._record["calls"][:most]
        for steps in (self._record["setup"], *(call["steps"] for call in calls)):
            for step in steps:
                if "launch" in step and step["module"] not in seen:
                    seen.add(step["module"])
                    yield self._launch(step)

    def steps(self, steps: Sequence[Any], call: int) -> Iterator[RecordedLaunch]:
        """Do the steps of a call; yields each launch before it runs."""
        for step in steps:
            if "launch" in step:
                launch = self._launch(step)
                yield launch
                self._run(launch, call)
                continue
            with reading_record("a step"):
                self._move(step, call)

    def _move(self, step: Mapping[str, Any], call: int) -> None:
        place = self._place(step)
        if "fill" in step:
            filled = self._write(step["fill"], Writer("fill", "", call, place))
            filled.fill_(self.decoded(step["value"]))
        elif "copy" in step:
            self._copy(step)
        elif "moved" in step:
            self._gather(step)
        elif "constant" in step:
            tensor = self._write(step["constant"], Writer("fill", "", call, place))
            content = bytearray(base64.b64decode(step["bytes"]))
            values = torch.frombuffer(content, dtype=torch.uint8).view(tensor.dtype)
            for at, number, offset in step.get("pointers", ()):
                values[at] = self._address(number, offset)
            tensor.copy_(values.reshape(tensor.shape))
        elif "computed" in step:
            self._write(step["computed"], Writer("torch", str(step["by"])[:60], call, place))

    def _place(self, step: Mapping[str, Any]) -> SourcePosition | None:
        line = step.get("line")
        return SourcePosition(self._file, line) if type(line) is int and line > 0 else None

    def _write(self, encoded: Mapping[str, Any], writer: Writer) -> torch.Tensor:
        view = view_of(encoded)
        tensor = self.memory.tensor(view)
        self.memory.codes_of(view)[...] = self.memory.code(writer)
        return tensor

    def _copy(self, step: Mapping[str, Any]) -> None:
        source, target = view_of(step["copy"]), view_of(step["to"])
        self.memory.tensor(target).copy_(self.memory.tensor(source))
        codes = self.memory.codes_of(source)[..., :1]
        self.memory.codes_of(target)[...] = codes

    def _gather(self, step: Mapping[str, Any]) -> None:
        """Copy elements, each from the place that the step says; one below 0 leaves it."""
        source, target = view_of(step["moved"]), view_of(step["to"])
        kind = _WHOLE[source.dtype.itemsize]
        values, made = (self.memory.tensor(view).view(kind) for view in (source, target))
        packed, most = base64.b64decode(step["places"]), max(8, 8 * made.numel())
        steps = numpy.frombuffer(zlib.decompressobj().decompress(packed, most), numpy.int64)
        places = numpy.cumsum(steps).reshape(target.shape)
        taken = places >= 0
        made.numpy()[taken] = values.numpy().reshape(-1)[places[taken]]
        codes = self.memory.codes_of(source)[..., 0].reshape(-1)
        self.memory.codes_of(target)[taken] = codes[places[taken]][:, None]

    def _address(self, number: int, offset: int) -> int:
        if not 0 <= offset < len(self.memory.bytes[number]):
            raise BadRecord("an address")
        return self._bases[number] + offset

    def _launch(self, step: Mapping[str, Any]) -> RecordedLaunch:
        with reading_record("a launch"):
            return self._bound(step, self._place(step))

    def _bound(self, step: Mapping[str, Any], place: SourcePosition | None) -> RecordedLaunch:
        module = self._record["modules"][step["module"]]
        if "error" in module:
            words = str(module["error"]["what"])[:_LONGEST]
            raise Refused(Diagnostic("error", "compile-error", words, place))
        kernel = self._kernel(step["launch"], step["module"])
        values = {str(name): self.decoded(value) for name, value in step["values"].items()}
        options = {str(name): self.decoded(value) for name, value in step["options"].items()}
        for name, value in options.items():
            if not triton_api.may_be_of_file(name, value):
                words = (
                    f"the launch sets {name}={value!r:.200}, which may name files of the judge's"
                )
                raise Refused(Diagnostic("error", "refused-option", words, place))
        grid = tuple(map(int, step["grid"]))
        call = bind(kernel, (), values, self._target, options=options)
        given = triton_api.GivenModule(str(module["text"]))
        if len(grid) != 3 or not triton_api.entry_fits(given.text, call.specialization):
            raise BadRecord("a module")
        triton_api.give_module(kernel, call.specialization, given)
        return RecordedLaunch(kernel, grid, call, place)

    def _kernel(self, number: int, module: int | None = None) -> Any:
        """Return a kernel of the record, one object for each of its modules."""
        if (number, module) not in self._kernels:
            facts = self._record["kernels"][number]["functions"]
            self._kernels[number, module] = triton_api.given_kernel(facts)
        return self._kernels[number, module]

    def decoded(self, value: Any) -> Any:
        """Return a value of a launch.

        Raises:
            BadRecord: it is not one.
        """
        if not isinstance(value, Mapping):
            return value
        if "float" in value:
            return float(value["float"])
        if "address" in value:
            return self._address(value["address"], value["offset"])
        if "storage" in value:
            return self.memory.tensor(view_of(value))
        if "descriptor" in value:
            base = self.memory.tensor(view_of(value["descriptor"]))
            return descriptor_of(base, value["parts"])
        if "function" in value:
            return self._kernel(value["function"])
        if "torch" in value:
            return _dtype(value["torch"])
        if "triton" in value:
            return dtype_named(str(value["triton"]))
        return tuple(map(self.decoded, value["items"]))

    def _run(self, launch: RecordedLaunch, call: int) -> None:
        code = program_code(launch.kernel, launch.call, self._target)
        name = str(launch.kernel.__name__)
        seen = self._watch(name, call)
        with only_reachable(self.memory.tensors):
            launch_observed(launch.kernel, launch.grid, launch.call, code, AccessObserver(seen))

    def _watch(self, name: str, call: int) -> Callable[[ObservedAccess], None]:
        """Return a function that notes who writes, and whether a value of torch's is read."""
        has_computed = any(writer.kind == "torch" for writer in self.memory.writers)

        def see(seen: ObservedAccess) -> None:
            effect = global_effect(seen.operation)
            for number, starts in self._places(seen):
                if effect == "load" and not has_computed:
                    continue
                places = (starts[:, None] + numpy.arange(seen.size)).reshape(-1)
                codes = self.memory.codes[number]
                if effect != "store" and has_computed and self.computed is None:
                    writers = (self.memory.writers[code] for code in numpy.unique(codes[places]))
                    self.computed = next((w for w in writers if w.kind == "torch"), None)
                if effect != "load":
                    writer = Writer("kernel", name, call, position_of(seen.operation))
                    codes[places] = self.memory.code(writer)

        return see

    def _places(self, seen: ObservedAccess) -> Iterator[tuple[int, numpy.ndarray]]:
        """Yield the first byte of each element that an access goes to, by storage."""
        on = lanes_on(seen.mask, seen.active, len(seen.shape))
        addresses, taking = numpy.broadcast_arrays(
            full(seen.addresses, seen.shape), numpy.True_ if on is None else on
        )
        places = addresses[taking].astype(numpy.int64)
        if not places.size:
            return
        for number, base in enumerate(self._bases):
            size = len(self.memory.bytes[number])
            if places.max() < base or places.min() >= base + size:
                continue
            own = places[(places >= base) & (places + seen.size <= base + size)] - base
            if own.size:
                yield number, own


def view_of(encoded: Any) -> TensorView:
    """Return the view that a recorder described; of a descriptor that of its tensor.

    Raises:
        BadRecord: it described none.
    """
    encoded = encoded.get("descriptor", encoded)
    numbers = (*encoded["shape"], *encoded["strides"], encoded["offset"], encoded["storage"])
    is_whole = all(type(number) is int and number >= 0 for number in numbers)
    if not is_whole:
        raise BadRecord("a tensor")
    return TensorView(
        encoded["storage"], _dtype(encoded["dtype"]), tuple(encoded["shape"]),
        tuple(encoded["strides"]), encoded["offset"],
    )  # fmt: skip


def _dtype(name: Any) -> torch.dtype:
    dtype = getattr(torch, str(name), None)
    if not isinstance(dtype, torch.dtype):
        raise BadRecord("a dtype")
    return dtype
