"""Tensors of the emulated GPU: torch's functions and operations in threads that are inside
`interpreted(answers="gpu")`.

Memory stays the CPU's; a mark on a storage says that it is on "cuda". Two modes of torch make, move
and query tensors accordingly. Private names of torch's are in `torch_api/`.
"""

from __future__ import annotations

import functools
import struct
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal

import torch

from kernellab import triton_api
from kernellab.common.patches import replaced, variable_is
from kernellab.records import Target
from kernellab.torch_api.emulation import (
    HigherOrderOperator,
    OperationMode,
    TorchFunctionMode,
    check_index,
    draws_numbers,
    follows_default_device,
    identity_of,
    is_traced,
    nested_tensors,
    operations_unseen,
    parts_of_sparse,
    pass_autocast,
    run_as,
    run_higher_order,
    runs_on_gpu_alone,
    unasked,
)

# Who is inside: for which threads and tasks torch answers as a GPU's would, and for which GPU.


@dataclass(eq=False)
class GpuSession:
    """One context in which torch answers for a GPU.

    Attributes:
        target: the GPU.
        emulation: where launches go meanwhile.
        is_open: False once the context was left: threads that it started may live longer.
        streams: the current stream of each thread, if it is not the default one.
        generator: the GPU's default generator, made on first use.
    """

    target: Target
    emulation: triton_api.Emulation
    is_open: bool = True
    streams: threading.local = field(default_factory=threading.local)
    generator: Generator | None = None


_session: ContextVar[GpuSession | None] = ContextVar("kernellab_torch_cuda", default=None)


def current_session() -> GpuSession | None:
    """The session that this thread (or asyncio task) is inside of; None if torch answers itself.

    If Triton uses the real GPU, there is no emulation, and no session either.
    """
    session = _session.get()
    if session is None or not session.is_open or triton_api.current_emulation() is None:
        return None
    return session


def session_is(session: GpuSession | None) -> AbstractContextManager[object]:
    """While active, that is this thread's session."""
    return variable_is(_session, session)


# Classes that replace torch's while a thread is inside.


class StandIn(type(torch.Generator)):  # type: ignore[misc] # the metaclass of all of torch's
    """A class in the place of torch's `original`, of which it makes instances outside a session."""

    original: type[Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if current_session() is None:
            return cls.original(*args, **kwargs)
        return cls.made(*args, **kwargs)

    def made(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, cls.original)


# Which tensors count as being on the GPU: a mark on their storage.
#
# Views, parameters and gradients that share a storage share its mark, and the mark lives and
# dies with it. A tensor without a mark is what it is: on the CPU, as a rule.


GPU = torch.device("cuda", 0)
"""The emulated GPU."""


def names_gpu(device: Any) -> bool:
    """Whether a device, as torch's functions take it, is the GPU. Raises RuntimeError: it is a GPU
    other than the emulated one.
    """
    device = named(device)
    if device.type == GPU.type:
        check_index(device.index or 0)
    return bool(device.type == GPU.type)


def named(device: Any) -> torch.device:
    """The device of a number, a name or a device."""
    return torch.device(GPU.type, device) if isinstance(device, int) else torch.device(device)


Place = Literal["gpu", "pinned", None]
"""The place of a tensor's memory; None for the CPU's ordinary memory."""

_MARK = "kernellab_place"


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Whether a tensor counts as being on the GPU."""
    return _place_of(tensor) == "gpu"


def place_of_storage(storage: torch.UntypedStorage) -> Place:
    """The place of all tensors that share a storage."""
    return getattr(storage, _MARK, None)


def place(tensor: torch.Tensor, where: Place) -> None:
    """Place a tensor, and all that share its storage."""
    if tensor.is_cpu:
        for storage in _storages(tensor):
            place_storage(storage, where)


def place_storage(storage: torch.UntypedStorage, where: Place) -> None:
    """Place all tensors that share a storage."""
    before = place_of_storage(storage)
    if before == where:
        return
    if before == "gpu":
        allocated.forget(storage)
    setattr(storage, _MARK, where)
    if where == "gpu":
        allocated.add(storage)


def storages_of(*values: Any) -> set[int]:
    """Return the identities of the storages of tensors, valid while the tensors live."""
    return {
        identity_of(storage) for tensor in nested_tensors(*values) for storage in _storages(tensor)
    }


def share_place(result: Any, *sources: Any) -> None:
    """Place new results of a tensor on the GPU if the tensor is there."""
    made = list(nested_tensors(result))
    if made and any(map(is_on_gpu, nested_tensors(*sources))):
        before = storages_of(*sources)
        for tensor in made:
            if not storages_of(tensor) <= before:
                place(tensor, "gpu")


def _storages(tensor: torch.Tensor) -> Sequence[torch.UntypedStorage]:
    """A tensor's storages: of its indices and values if it is sparse, none if it is fake."""
    if tensor.layout is not torch.strided:
        return [part.untyped_storage() for part in parts_of_sparse(tensor)]
    try:
        return (tensor.untyped_storage(),)
    except (NotImplementedError, RuntimeError):
        return ()


def _place_of(tensor: torch.Tensor) -> Place:
    places = set(map(place_of_storage, _storages(tensor)))
    return places.pop() if len(places) == 1 else None


class Allocated:
    """How many bytes of storages count as being on the GPU, now and at most.

    Freed storages are recorded by a C function, which Ctrl-C cannot interrupt.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: dict[weakref.ref[Any], int] = {}
        self._dead: deque[weakref.ref[Any]] = deque()
        self._bytes = 0
        self.peak = 0

    @property
    def bytes(self) -> int:
        """The current bytes."""
        with self._lock:
            return self._settled()

    def add(self, storage: torch.UntypedStorage) -> None:
        """Count a storage for as long as it lives."""
        counted: Any = storage
        reference = counted.kernellab_counted = weakref.ref(storage, self._dead.append)
        with self._lock:
            self._alive[reference] = storage.nbytes()
            self._bytes += self._alive[reference]
            self.peak = max(self.peak, self._settled())

    def forget(self, storage: torch.UntypedStorage) -> None:
        """Stop counting a storage."""
        counted: Any = storage
        with self._lock:
            self._drop(counted.kernellab_counted)

    def reset_peak(self) -> None:
        """Reset the peak to the current bytes."""
        self.peak = self.bytes

    def _settled(self) -> int:
        while self._dead:
            self._drop(self._dead.popleft())
        return self._bytes

    def _drop(self, reference: weakref.ref[Any]) -> None:
        self._bytes -= self._alive.pop(reference, 0)


allocated = Allocated()

# Tensors without values, in which torch traces: they keep their devices themselves.


def traced(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of torch's tracing, which knows each tensor's device, but not the current GPU."""
    if func is torch.Tensor.cuda and len(args) == 1 and kwargs.get("device") is None:
        kwargs["device"] = GPU
    elif func in _NEED_INDEX:
        args = tuple(GPU if _is_current_gpu(value) else value for value in args)
        if _is_current_gpu(kwargs.get("device")):
            kwargs["device"] = GPU
    return func(*args, **kwargs)


_NEED_INDEX = frozenset(
    {torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor, torch.Tensor.to}
)
"""Functions for which torch adds the number of the current GPU to a device without one."""


def _is_current_gpu(device: Any) -> bool:
    return isinstance(device, str | torch.device) and str(device) == GPU.type


# Random numbers of the emulated GPU: as on a GPU, a generator's numbers follow from a seed and an
# offset, independently of the CPU's generator. They differ from a GPU's numbers.


_STEP = 4
"""The least number that one call adds to the offset: Philox gives four numbers at once, and torch
refuses offsets that are not a multiple of that."""

_WORD, _SPREAD = 2**64, 0x9E3779B97F4A7C15

_STATE = struct.Struct("<QQ")
"""Seed and offset, as `get_state` and `set_state` have them."""


class Generator(torch.Generator, metaclass=StandIn):
    """As `torch.Generator`, of the GPU or of the CPU."""

    original = torch.Generator

    def __new__(cls, device: Any = "cpu") -> Any:
        if not names_gpu(device):
            return cls.original(device)
        make: Any = super().__new__
        made: Generator = make(cls, "cpu")
        made._seed, made._offset = made.original.initial_seed(made), 0
        return made

    _seed: int
    _offset: int

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device of its numbers."""
        return GPU

    def manual_seed(self, seed: int) -> Generator:
        """Begin again with a seed."""
        self._seed, self._offset = int(seed) % _WORD, 0
        return self

    def seed(self) -> int:
        """Begin again with a random seed; return it."""
        self.manual_seed(super().seed())
        return self._seed

    def initial_seed(self) -> int:
        """The seed."""
        return self._seed

    def get_offset(self) -> int:
        """The offset since the seed."""
        return self._offset

    def set_offset(self, offset: int) -> Generator:
        """Go on from there."""
        self._offset = int(offset)
        return self

    def get_state(self) -> torch.Tensor:
        """Seed and offset, as 16 bytes."""
        state = bytearray(_STATE.pack(self._seed, self._offset))
        return torch.frombuffer(state, dtype=torch.uint8)

    def set_state(self, new_state: torch.Tensor) -> Generator:
        """Go on from there."""
        state = bytes(new_state.cpu().tolist())
        if new_state.dtype != torch.uint8 or len(state) != _STATE.size:
            raise RuntimeError(
                "RNG state is wrong size: that of a GPU has 16 bytes, the seed and the offset"
            )
        self._seed, self._offset = _STATE.unpack(state)
        return self

    def clone_state(self) -> Generator:
        """A copy with the same state."""
        other: Generator = type(self)(GPU)
        return other.set_state(self.get_state())

    @contextmanager
    def draws(self, through: torch.Generator) -> Iterator[None]:
        """While active, torch's code for the CPU that draws from `through` draws from here."""
        state = self.original.get_state(through)
        self.original.manual_seed(through, (self._seed + self._offset * _SPREAD) % _WORD)
        self._offset += _STEP
        try:
            yield
        finally:
            self.original.set_state(through, state)


def default_generator() -> Generator:
    """That of this thread's session; it began as the CPU's had."""
    session = current_session()
    assert session is not None
    if session.generator is None:
        session.generator = Generator(GPU).manual_seed(torch.initial_seed())
    return session.generator


class DefaultGenerators(Sequence[Any]):
    """`torch.cuda.default_generators`: inside that of the one GPU, outside torch's own."""

    def __init__(self, original: Sequence[Any]) -> None:
        self._original = original

    def _all(self) -> Sequence[Any]:
        return self._original if current_session() is None else (default_generator(),)

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, number: Any) -> Any:
        return self._all()[number]


# Torch's functions inside a session: "cuda" means the CPU, and tensors that are made there are
# marked.
#
# A mode of torch's sees each call of a function, a method or an attribute of a tensor.
# KernelLab's own code is exempt: it needs the tensors' real devices.


class GpuFunctions(TorchFunctionMode):  # type: ignore[misc]
    """Handles calls of torch's functions in threads that are inside."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if current_session() is None or _is_ours(sys._getframe(1)):
            return func(*args, **kwargs)
        return _answered(func, args, kwargs)


FUNCTIONS = GpuFunctions()
"""The mode that all threads share."""


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.startswith("kernellab.")


def on_default_device(
    by_torch: Any, mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Make tensors on a default device as torch does, which may be the GPU.

    torch's own mode for that is above ours or below it, where it sees what torch's functions
    make within.
    """
    kwargs = kwargs or {}
    if current_session() is None or mode.device.type != GPU.type:
        return by_torch(mode, func, types, args, kwargs)
    if follows_default_device(func) and kwargs.get("device") is None:
        kwargs = kwargs | {"device": mode.device}
    elif _is_ours(sys._getframe(2)):
        return func(*args, **kwargs)
    return _answered(func, args, kwargs)


def _answered(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """A function's result, on the device that it names, or else on that of its arguments."""
    if func not in _QUESTIONS and is_traced(nested_tensors(args, kwargs)):
        return traced(func, args, kwargs)
    if isinstance(func, HigherOrderOperator):
        pass_autocast(func)
    answer = _ANSWERS.get(func)
    if answer is not None:
        return answer(*args, **kwargs)
    generator = kwargs.get("generator")
    if type(generator) is Generator:  # of the GPU: others are torch's own
        with generator.draws(generator):
            return _on_its_device(func, args, kwargs)
    return _on_its_device(func, args, kwargs)


def _on_its_device(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    device = kwargs.get("device")
    pins = kwargs.pop("pin_memory", None)
    if device is None:
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor | list | tuple | dict):
            share_place(result, args, kwargs)
    else:
        wanted = names_gpu(device)
        with making(on_gpu=True) if wanted else nullcontext():
            result = func(*args, **kwargs | {"device": "cpu" if wanted else device})
        result = _placed(result, wanted, (args, kwargs))
    if pins and isinstance(result, torch.Tensor):
        place(result, "pinned")
    return result


def _placed(result: Any, on_gpu: bool, sources: Any) -> Any:
    """Return the result of a function with a device argument, a copy if it is an argument."""
    if isinstance(result, torch.Tensor) and is_on_gpu(result) != on_gpu:
        if storages_of(result) <= storages_of(sources):
            return moved(result, on_gpu)
        place(result, "gpu" if on_gpu else None)
    return result


# Moving


def moved(tensor: torch.Tensor, to_gpu: bool) -> torch.Tensor:
    """A copy in the other place; gradients return to the tensor's place."""
    if tensor.requires_grad and torch.is_grad_enabled():
        move: Any = _Move.apply
        copy: torch.Tensor = move(tensor, to_gpu)
        return copy
    return _copy(tensor, to_gpu)


def _copy(tensor: torch.Tensor, to_gpu: bool) -> torch.Tensor:
    copy = tensor.clone()
    place(copy, "gpu" if to_gpu else None)
    return copy


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, to_gpu: bool) -> torch.Tensor:
        context.to_gpu = to_gpu
        return _copy(tensor, to_gpu)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        return moved(gradients[0], not context.to_gpu), None


def _to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    rest, names = list(args), ["dtype", "non_blocking", "copy"]
    if rest and (rest[0] is None or isinstance(rest[0], str | int | torch.device)):
        names.insert(0, "device")
    elif rest and isinstance(rest[0], torch.Tensor):
        names[0] = "other"
    how = {name: value for name, value in (*zip(names, rest), *kwargs.items()) if value is not None}
    device, other = how.pop("device", None), how.pop("other", None)
    if other is not None:
        device, how["dtype"] = _device(other), other.dtype
    if device is not None and named(device).type not in ("cpu", GPU.type):
        return tensor.to(device, **how)
    if device is not None and is_on_gpu(tensor) != names_gpu(device):
        tensor = moved(tensor, not is_on_gpu(tensor))
        how["copy"] = False
    result = tensor.to(**how)
    share_place(result, tensor)
    return result


def _cuda(
    tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> torch.Tensor:
    where = GPU if device is None else device
    return _to(tensor, where, non_blocking=non_blocking, memory_format=memory_format)


def _cpu(tensor: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
    return _to(tensor, "cpu", memory_format=memory_format)


def _type(tensor: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`Tensor.type`: the name of a type, "torch.cuda.FloatTensor", or a conversion to it."""
    if dtype is None:
        name = tensor.type()
        return name.replace("torch.", "torch.cuda.", 1) if is_on_gpu(tensor) else name
    to_gpu = is_on_gpu(tensor)
    if isinstance(dtype, str):
        to_gpu = dtype.startswith("torch.cuda.")
        dtype = dtype.replace("torch.cuda.", "torch.", 1)
    return _placed(tensor.type(dtype, *args, **kwargs), to_gpu, tensor)


def _is_pinned(tensor: torch.Tensor, *_: Any, **__: Any) -> bool:
    return _place_of(tensor) == "pinned"


def _pin_memory(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    if _is_pinned(tensor):
        return tensor
    if is_on_gpu(tensor):
        raise RuntimeError(f"cannot pin '{_type(tensor)}' only dense CPU tensors can be pinned")
    copy = tensor.clone()
    place(copy, "pinned")
    return copy


# Making sparse tensors


def _sparse(constructor: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A sparse tensor, on the GPU if a part of it is, unless a device is named."""
    if kwargs.get("device") is None and any(map(is_on_gpu, nested_tensors(args, kwargs))):
        kwargs["device"] = GPU
    return _on_its_device(constructor, args, kwargs)


# Asking


def _device(tensor: torch.Tensor) -> torch.device:
    return GPU if is_on_gpu(tensor) else tensor.device


def _deepcopy(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    by_torch: Callable[..., torch.Tensor] = torch.Tensor.__deepcopy__
    was_copied = id(tensor) in memo
    result = by_torch(tensor, memo)
    if not was_copied:
        place(result, "gpu" if is_on_gpu(tensor) else None)
    return result


def _repr(tensor: torch.Tensor, **options: Any) -> str:
    by_torch: Callable[..., str] = torch.Tensor.__repr__
    text = by_torch(tensor, **options)
    said = f", device='{GPU}'"
    if is_on_gpu(tensor) and said not in text and text.endswith(")"):
        return f"{text[:-1]}{said})"
    return text


def _of_memory(by_torch: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Read a tensor's memory for NumPy, which is an error on a GPU."""
    if is_on_gpu(tensor):
        raise TypeError(
            f"can't convert {GPU} device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first."
        )
    return by_torch(tensor, *args, **kwargs)


# A backward pass calls functions of other people, which need the mode as well.


def seeing_gpu(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; the mode sees its calls of torch's functions, in threads inside."""
    with FUNCTIONS if current_session() else nullcontext():
        return function(*args, **kwargs)


@contextmanager
def context_seeing_gpu(enter: Callable[..., Any], *args: Any) -> Iterator[Any]:
    """A context in which the mode sees calls too, in threads that are inside."""
    with enter(*args) as value, FUNCTIONS if current_session() else nullcontext():
        yield value


_attributes: Any = torch.Tensor

_QUESTIONS: dict[Any, Callable[..., Any]] = {
    _attributes.device.__get__: _device,
    _attributes.is_cuda.__get__: lambda tensor: _device(tensor).type == "cuda",
    _attributes.is_cpu.__get__: lambda tensor: _device(tensor).type == "cpu",
    **dict.fromkeys(
        (torch.Tensor.get_device, torch.get_device),
        lambda tensor: 0 if is_on_gpu(tensor) else tensor.get_device(),
    ),
}
"""Where a tensor is, real or traced."""

_ANSWERS: dict[Any, Callable[..., Any]] = {
    **_QUESTIONS,
    torch.Tensor.is_pinned: _is_pinned,
    torch.Tensor.to: _to,
    torch.Tensor.cuda: _cuda,
    torch.Tensor.cpu: _cpu,
    torch.Tensor.type: _type,
    torch.Tensor.pin_memory: _pin_memory,
    **{
        # torch disables a mode while its handler runs
        function: functools.partial(seeing_gpu, unasked(function))
        for function in (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
    },
    torch.Tensor.__deepcopy__: _deepcopy,
    torch.Tensor.__repr__: _repr,
    **{
        read: functools.partial(_of_memory, read)
        for read in (torch.Tensor.numpy, _attributes.__array__)
    },
    **{
        constructor: functools.partial(_sparse, constructor)
        for constructor in (
            torch.sparse_coo_tensor, torch.sparse_compressed_tensor, torch.sparse_csr_tensor,
            torch.sparse_csc_tensor, torch.sparse_bsr_tensor, torch.sparse_bsc_tensor,
        )
    },
}  # fmt: skip

# What torch's operations do inside: where a result is follows from where the operands are.
#
# A mode of torch's sees each operation below autograd, those of a backward pass too.


class _Making(threading.local):
    on_gpu = False


_making = _Making()


def making(*, on_gpu: bool) -> AbstractContextManager[None]:
    """While active, what this thread makes is for the GPU, though no tensor there has a part; or,
    within code of other people, only if that says so itself.
    """
    return replaced(_making, on_gpu=on_gpu)


class GpuOperations(OperationMode):
    """Follows the operations of the threads that are in the context."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if current_session() is None:
            return func(*args, **kwargs)
        # Classes of other code make tensors of the GPU (quantized weights); torch's only trace.
        for kind in (each for each in types if not each.__module__.startswith("torch.")):
            with FUNCTIONS, self, making(on_gpu=False):
                result = kind.__torch_dispatch__(func, types, args, kwargs)
            if result is not NotImplemented:
                return result
        result = self._run(func, args, kwargs)
        share_place(result, args, kwargs)
        return result

    def _run(self, operation: Any, args: Any, kwargs: Any) -> Any:
        """The operation's result; of code that other people registered, modes on."""
        if isinstance(operation, HigherOrderOperator):
            with FUNCTIONS, making(on_gpu=False):
                return run_higher_order(operation, args, kwargs)
        on_gpu = _making.on_gpu or any(map(is_on_gpu, nested_tensors(args, kwargs)))
        drawn: AbstractContextManager[None] = nullcontext()
        if (
            on_gpu
            and draws_numbers(operation)
            and not any(isinstance(value, torch.Generator) for value in (*args, *kwargs.values()))
        ):
            drawn = default_generator().draws(torch.default_generator)
        with drawn:
            return self._by_torch_or_others(operation, on_gpu, args, kwargs)

    def _by_torch_or_others(self, operation: Any, on_gpu: bool, args: Any, kwargs: Any) -> Any:
        if operation.namespace in _WITHOUT_KERNELS or is_traced(nested_tensors(args, kwargs)):
            return operation(*args, **kwargs)
        if on_gpu and runs_on_gpu_alone(operation):
            key = "CUDA"
            if _making.on_gpu and "device" in kwargs:
                kwargs = kwargs | {"device": GPU}
        elif operation.namespace in _TORCHS_OWN:
            return operation(*args, **kwargs)
        else:
            key = "CPU"
        with FUNCTIONS, self, making(on_gpu=False):
            return run_as(key, operation, args, kwargs)


_WITHOUT_KERNELS = frozenset({"prim"})
"""Queries of a tensor's device, layout or sizes; the dispatcher does not have them."""

_TORCHS_OWN = frozenset({"aten", "prims", "quantized", "mkldnn", "mkl", "profiler"})


OPERATIONS = GpuOperations()
"""The mode that all threads share."""


def made_unseen(by_torch: Any, kind: type[torch.Tensor], /, *args: Any, **kwargs: Any) -> Any:
    """`torch.Tensor.__new__`, which makes a tensor of a subclass with the mode off: a mode hands
    torch a finished `torch.Tensor` there, whose class cannot change any more.
    """
    if kind is torch.Tensor or current_session() is None:
        return by_torch(kind, *args, **kwargs)
    with operations_unseen(OPERATIONS):
        return by_torch(kind, *args, **kwargs)
