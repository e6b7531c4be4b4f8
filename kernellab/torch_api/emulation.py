"""The private names of torch that emulating a GPU needs: modes, operations and their
decompositions, torch's queries of itself and of its extension module, and autocast.

Torch's compiler is not imported here, because that takes seconds.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

import torch
import torch._C._dynamo.eval_frame
import torch._decomp
import torch._library.custom_ops
import torch._subclasses.fake_tensor
import torch.fx.experimental.proxy_tensor
import torch.overrides
import torch.utils._device
import torch.utils._python_dispatch
import torch.utils._triton

from kernellab.errors import UnsupportedOperation

_overrides: Any = torch.overrides
_custom_ops: Any = torch._library.custom_ops
_dispatching: Any = torch.utils._python_dispatch
_operators: Any = torch._ops
_fakes: Any = torch._subclasses.fake_tensor
_default_devices: Any = torch.utils._device

TorchFunctionMode: Any = _overrides.TorchFunctionMode
HigherOrderOperator: Any = _operators.HigherOrderOperator
"""An operation that takes functions, kernels or graphs."""

DeviceContext: Any = _default_devices.DeviceContext
"""How torch makes tensors on the default device."""


class OperationMode(_dispatching.TorchDispatchMode):  # type: ignore[misc]
    """Sees each operation below autograd, without an import of torch's compiler, which takes
    seconds.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


_frames: Any = torch._C._dynamo.eval_frame


Launching = TypeVar("Launching", bound=Callable[..., Any])


def untraced(function: Launching) -> Launching:
    """Have torch.compile call what launches a kernel on the interpreter instead of tracing it. That
    is `torch.compiler.disable` without an import of Dynamo, which takes seconds.
    """
    message = "the kernel runs on KernelLab's interpreter, which is not compiled"
    vars(function).update(_torchdynamo_disable=True, _torchdynamo_disable_msg=message)
    skip = _frames._FrameAction.SKIP
    strategy = _frames._FrameExecStrategy(skip, skip)
    _frames.set_code_exec_strategy(function.__code__, strategy)
    return function


# Modes


def remove_modes(function_mode: Any, dispatch_mode: Any) -> None:
    """Take both off this thread's stacks, wherever in them they are: other modes may have been
    entered since, and tasks of asyncio leave in any order.
    """
    above = []
    while _overrides._get_current_function_mode_stack():
        mode = _overrides._pop_mode()
        if mode is function_mode:
            break
        above.append(mode)
    for mode in reversed(above):
        _overrides._push_mode(mode)
    with _modes_above(dispatch_mode) as is_there:
        if is_there:
            dispatch_mode.__exit__(None, None, None)


@contextmanager
def _modes_above(dispatch_mode: Any) -> Iterator[bool]:
    """While active, the modes above this one are off this thread's stack, so that it is on top;
    the value says whether it is on the stack at all.
    """
    stack = _dispatching._get_current_dispatch_mode_stack()
    places = [place for place, mode in enumerate(stack) if mode is dispatch_mode]
    above = stack[places[-1] + 1 :] if places else []
    for _ in above:
        _dispatching._pop_mode()
    try:
        yield bool(places)
    finally:
        for mode in above:
            _dispatching._push_mode(mode)


@contextmanager
def operations_unseen(dispatch_mode: Any) -> Iterator[None]:
    """While active, this mode is not on this thread's stack; the others are."""
    with _modes_above(dispatch_mode) as is_there:
        if is_there:
            _dispatching._pop_mode()
    try:
        yield
    finally:
        if is_there:
            _dispatching._push_mode(dispatch_mode)


@functools.cache
def unasked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch written in Python without its dispatch to modes."""
    plain: Any = function
    asks = [name for name in plain.__code__.co_names if name.startswith("has_torch_function")]
    others = plain.__globals__ | dict.fromkeys(asks, lambda *_: False)
    made = FunctionType(plain.__code__, others, plain.__name__, plain.__defaults__)
    made.__kwdefaults__ = plain.__kwdefaults__
    return made


def stated_default_device() -> torch.device | None:
    """This thread's device of `torch.set_default_device` or `with torch.device(...)`, or None."""
    for mode in reversed(_overrides._get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            device: torch.device = mode.device
            return device
    return None


@functools.cache
def follows_default_device(function: Callable[..., Any]) -> bool:
    """Whether a function of torch's makes a tensor on the default device."""
    return function in _default_devices._device_constructors()


def identity_of(storage: torch.UntypedStorage) -> int:
    """Return what identifies a storage among all that live."""
    return int(storage._cdata)


def parts_of_sparse(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The indices and the values of a sparse tensor; empty if its layout does not have them."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return ()


# Tensors without values

TRACING: ModuleType = torch.fx.experimental.proxy_tensor
"""The module that traces; it computes constants while `unset_fake_temporarily` is entered."""

FakeTensorMode: Any = _fakes.FakeTensorMode
"""The mode in which torch makes tensors without values while it traces."""

CrossRefFakeMode: Any = torch._subclasses.CrossRefFakeMode
"""Compares the metadata of real tensors with those of fake ones, in `opcheck`."""

FAKE_TENSORS: ModuleType = torch._subclasses.fake_tensor
"""Their module; before the first one of a GPU, `init_gpu_context` makes a real tensor there."""

FakeTensorConverter: Any = _fakes.FakeTensorConverter
"""Makes a fake tensor for a real one."""


def nested_tensors(*values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among values, within lists, tuples and dicts too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from nested_tensors(*value)
        elif isinstance(value, dict):
            yield from nested_tensors(*value.values())


def is_traced(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether a call is of tensors without values, which torch makes while it traces."""
    if torch._C._get_dispatch_mode(_FAKE) is not None:
        return True
    return any(isinstance(tensor, _fakes.FakeTensor) for tensor in tensors)


_FAKE: Any = torch._C._TorchDispatchModeKey.FAKE


# Kernels of operations


def run_higher_order(operation: Any, args: Any, kwargs: Any) -> Any:
    """The result of a higher-order operator, whose call function modes have seen already; they see
    what the functions call that it is given.
    """
    keys = _operators._compute_keyset(args, kwargs, operation.non_fallthrough_keys)
    return operation.dispatch(keys.highestPriorityTypeId(), *args, **kwargs)


@functools.cache
def draws_numbers(operation: Any) -> bool:
    """Whether it takes random numbers from a generator."""
    return torch.Tag.nondeterministic_seeded in operation.tags


def python_function(operation: Any) -> Callable[..., Any] | None:
    """Return the function of an operation that `torch.library.custom_op` or `triton_op` made, whose
    Python may launch kernels; None for other operations.
    """
    made = _custom_ops.OPDEFS.get(operation.name())
    return None if made is None else made._init_fn


def runs_on_gpu_alone(operation: Any) -> bool:
    """Whether Python code is registered for the operation that runs for tensors on a GPU only.

    A build of torch with CUDA has compiled code for almost every operation, which needs a GPU, and
    torch 2.15 registers Python code that leads to it.
    """
    name = operation.name()
    if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA"):
        return False
    registrations = torch._C._dispatch_dump(name)
    place = re.search(r"^CUDA: registered at (.*\.py):\d+ ", registrations, re.MULTILINE)
    return place is not None and not place[1].endswith("torch/_native/registry.py")


def run_as(key: str, operation: Any, args: Any, kwargs: Any) -> Any:
    """The result of the code that is registered for "CUDA" or "CPU", whatever the tensors are."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    tensors = _taken_as_tensors(operation)
    given = (
        torch.scalar_tensor(value)
        if place in tensors and isinstance(value, bool | int | float | complex)
        else value
        for place, value in enumerate(args)
    )
    return operation.redispatch(keys, *given, **kwargs)


@functools.cache
def _taken_as_tensors(operation: Any) -> frozenset[int]:
    """Which arguments are tensors, for which a call takes numbers too: those of `x + 1`."""
    arguments = operation._schema.arguments
    return frozenset(
        place
        for place, argument in enumerate(arguments)
        if isinstance(argument.type, torch.TensorType)
    )


# Files


def take_files(place_said: Callable[..., Any], back_in_place: Callable[..., Any]) -> None:
    """Have these two called first for the device of a storage that is saved or loaded."""
    torch.serialization.register_package(_FIRST, place_said, back_in_place)


def leave_files(place_said: Callable[..., Any], back_in_place: Callable[..., Any]) -> None:
    """Remove them again."""
    registry: list[Any] = torch.serialization._package_registry
    registry[:] = [entry for entry in registry if entry[1:] != (place_said, back_in_place)]


_FIRST = 0

# Queries of torch itself

C_MODULE: ModuleType = torch._C
"""The underscored names that `torch.cuda` and other people's code call."""

CUDA_MODULES: tuple[ModuleType, ...] = (
    torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.graphs, torch.cuda.nvtx,
    torch.cuda.profiler,
)  # fmt: skip
"""Where the functions of `torch.cuda` are defined, or imported to."""

ACCELERATOR_MODULES: tuple[ModuleType, ...] = (torch.accelerator, torch.accelerator.memory)
"""The same of `torch.accelerator`."""

ABOUT_TRITON: ModuleType = torch.utils._triton
"""The functions by which torch queries Triton and the GPU."""

QUESTIONS_OF_TRITON = tuple(
    name
    for name, value in vars(ABOUT_TRITON).items()
    if callable(value) and hasattr(value, "cache_clear")
)
"""Those whose answers torch remembers: "has_triton", ..."""


def forget_answers_about_triton() -> None:
    """Have torch query them again."""
    for name in QUESTIONS_OF_TRITON:
        function = getattr(ABOUT_TRITON, name)
        getattr(function, "cache_clear", lambda: None)()


# Operations of torch as simpler ones: torch's own decompositions.

_decompositions: Any = torch._decomp


def decomposition_of(operation: Any) -> Callable[..., Any] | None:
    """The function that computes an operation by others; None if torch has none."""
    function: Callable[..., Any] | None = _decompositions.decomposition_table.get(operation)
    if function is None and operation._can_decompose():
        return operation.decompose  # type: ignore[no-any-return]
    return function


def changes_an_argument(operation: Any) -> bool:
    """Whether an operation writes to one of its arguments."""
    return bool(operation._schema.is_mutable)


def changed_arguments(operation: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return the arguments that an operation writes to: out=, or the first one of `add_`."""
    return [
        kwargs.get(parameter.name) if number >= len(args) else args[number]
        for number, parameter in enumerate(operation._schema.arguments)
        if parameter.alias_info is not None and parameter.alias_info.is_write
    ]


# What torch gets from its extension module about one GPU that is not there. `torch.cuda` is
# written in terms of these functions: its own code reads every form of a device.

_cuda: Any = torch.cuda
_backends: Any = torch.backends

Function = Callable[..., Any]


def check_index(index: int) -> None:
    """Refuse the number of a GPU that is not there; one below zero means the current one. Raises
    RuntimeError: in the words of CUDA.
    """
    if index > 0:
        raise RuntimeError(
            f"CUDA error: invalid device ordinal\ncuda:{index} was requested, but one GPU is "
            "emulated: cuda:0."
        )


def device_index(device: Any) -> int:
    """The number of the GPU that a device means, in any of the forms that torch takes."""
    index: int = _cuda._get_device_index(device, optional=True)
    check_index(index)
    return index


def _of_index(answer: Any) -> Function:
    def answer_about(index: int = 0, *_: Any) -> Any:
        check_index(index)
        return answer

    return answer_about


OF_CUDA: Mapping[str, Function] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "_lazy_init": lambda: None,
    "_exchange_device": _of_index(0),
    "_maybe_exchange_device": _of_index(0),
}
"""Functions of `torch.cuda` that come from the extension module, or depend on its build;
`_get_device_properties` is another.
"""

OF_C: Mapping[str, Function] = {
    "_cuda_getDevice": lambda: 0,
    "_cuda_setDevice": _of_index(None),
    "_cuda_synchronize": lambda: None,
}
"""Functions of the extension module itself."""


# Device guards

_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
"""c10::impl::device_guard_impl_registry: a pointer for each kind of device (DeviceGuardImpl
Interface.h)."""

_CUDA, _META = 1, 14
"""c10::DeviceType (DeviceType.h)."""

_KNOWN_TORCH = ("2.11", "2.12", "2.13", "2.14", "2.15")
"""The versions whose registry was looked at: a pointer is written into it."""


def let_operations_be_traced(*, in_copy: bool = False) -> None:
    """Have torch's operations take tensors that are traced as being on a GPU.

    Each asks for a guard that switches to the tensor's GPU. A build of torch for CUDA has one that
    does nothing without a GPU; a build for the CPU has none: there that of the meta device
    is used, which does nothing either. It lasts as long as the process. A version of torch that
    is not known is left alone; its operations then refuse to be traced.

    Args:
        in_copy: this process is a copy of one, in which CUDA refuses to work: the guard of the meta
            device is used in any case.
    """
    torch._C._ensureCUDADeviceGuardSet()
    library = next(Path(torch.__file__).parent.glob("lib/libc10.*"), None)
    version = ".".join(torch.__version__.split(".")[:2])
    is_known = library is not None and version in _KNOWN_TORCH
    if not is_known or (_backends.cuda.is_built() and not in_copy):
        return
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(ctypes.CDLL(str(library)), _REGISTRY)
    if in_copy or not guards[_CUDA]:
        guards[_CUDA] = guards[_META]


_HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"

_library: Any = torch.library

_KEY: Any = torch._C.DispatchKey.AutocastIPU  # type: ignore[attr-defined]
"""A key of hardware that torch has no kernels for."""

_KEYS = torch._C.DispatchKeySet(_KEY)

Counts = Callable[[torch.Tensor], bool]
"""Whether a tensor counts as being on the GPU."""

Policy = Callable[[Any, Counts, Any, Any], Any]
"""Called with an operation, `Counts`, the arguments by position and by name."""


def follow_autocast(on: bool, counts: Counts) -> None:
    """Let operations of this thread be cast from now on, or no longer; the last `counts` counts."""
    if on:
        _counting[:] = [counts]
        _register()
    torch._C._dispatch_tls_set_dispatch_key_included(_KEY, on)
    torch._C._dispatch_tls_set_dispatch_key_excluded(_KEY, not on)


def following(counts: Callable[[], Counts | None]) -> Callable[..., Any]:
    """`torch.set_autocast_enabled`, which `torch.autocast` calls when it is entered and left, but
    that operations are cast as on a GPU if `counts` returns a function.
    """
    set_enabled = torch.set_autocast_enabled

    @functools.wraps(set_enabled)
    def set_and_follow(*args: Any) -> Any:
        result = set_enabled(*args)
        counting = counts()
        if counting is not None:
            follow_autocast(torch.is_autocast_enabled("cuda"), counting)
        return result

    return set_and_follow


def pass_autocast(operation: Any) -> None:
    """Let a higher-order operator run under autocast as it does under that of a real GPU."""
    if operation.non_fallthrough_keys.has(_KEY):
        operation.fallthrough(_KEY)


_counting: list[Counts] = []


@functools.cache
def _register() -> list[Any]:
    """Give each operation its kernel. They last as long as the process, and nothing else leads to
    them.
    """
    kernels, others = _library.Library("aten", "IMPL"), _library.Library("_", "IMPL")
    others.fallback(_library.fallthrough_kernel, _KEY.name)
    for name, policy in policies().items():
        operation = operation_called(name)
        kernels.impl(name, functools.partial(_cast, policy, operation), _KEY.name)
    return [kernels, others]


def operation_called(name: str) -> Any:
    """The operation of ATen with this name and, behind a dot, overload."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _cast(policy: Policy, operation: Any, *args: Any, **kwargs: Any) -> Any:
    (counts,) = _counting
    with torch._C._ExcludeDispatchKeyGuard(_KEYS):
        if any(map(counts, nested_tensors(args, kwargs))):
            return policy(operation, counts, args, kwargs)
        return operation(*args, **kwargs)


# Policies


@functools.cache
def policies() -> Mapping[str, Policy]:
    """What each operation's kernel does (ATen/autocast_mode.h), by name and overload. Raises
    UnsupportedOperation: this build of torch comes without its headers.
    """
    if not _HEADER.exists():
        raise UnsupportedOperation(
            f'torch.autocast("cuda") is not emulated, because {_HEADER} is missing.',
            advice="Install torch from PyPI, whose wheels have the headers.",
        )
    text = _HEADER.read_text()
    by_name: dict[str, Policy] = {
        "norm.Scalar": functools.partial(_append_dtype, "norm.ScalarOpt_dtype"),
        "norm.ScalarOpt_dim": functools.partial(_append_dtype, "norm.ScalarOpt_dim_dtype"),
        "norm.names_ScalarOpt_dim": functools.partial(
            _append_dtype, "norm.names_ScalarOpt_dim_dtype"
        ),
        "binary_cross_entropy": _refuse,
        "linalg_matrix_sqrth": _in_fp32,  # of torch 2.15, which has it outside of its header
    }
    for macro, policy in _OF_MACROS.items():
        body = re.search(rf"#define {macro}\(_\)((?:.*\\\n)*.*)", text)
        for name, overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", body[1] if body else ""):
            by_name[f"{name}.{overload}" if overload else name] = policy
    return {name: policy for name, policy in by_name.items() if _exists(name)}


def _exists(name: str) -> bool:
    packet, _, overload = name.partition(".")
    return hasattr(getattr(torch.ops.aten, packet, None), overload or "default")


def _lower(operation: Any, counts: Counts, args: Any, kwargs: Any) -> Any:
    dtype = torch.get_autocast_dtype("cuda")
    return operation(*_as(dtype, counts, args), **_as(dtype, counts, kwargs))


def _in_fp32(operation: Any, counts: Counts, args: Any, kwargs: Any) -> Any:
    return operation(*_as(torch.float32, counts, args), **_as(torch.float32, counts, kwargs))


def _set_dtype(operation: Any, counts: Counts, args: Any, kwargs: Any) -> Any:
    """Result in fp32, unless the call names a type."""
    names = [argument.name for argument in operation._schema.arguments]
    given = dict(zip(names, args)) | kwargs
    if _is_eligible(args[0], counts) and given.get("dtype") is None:
        kwargs = kwargs | {"dtype": torch.float32}
    return operation(*args, **kwargs)


def _append_dtype(other: str, operation: Any, counts: Counts, args: Any, kwargs: Any) -> Any:
    """Result in fp32, of the overload that takes a type."""
    defaults = [argument.default_value for argument in operation._schema.arguments]
    dtype = torch.float32 if _is_eligible(args[0], counts) else args[0].dtype
    return operation_called(other)(*args, *defaults[len(args) :], **kwargs, dtype=dtype)


def _promote(operation: Any, counts: Counts, args: Any, kwargs: Any) -> Any:
    """In the widest type of the arguments."""
    lower = torch.get_autocast_dtype("cuda")
    dtypes = {
        tensor.dtype for tensor in nested_tensors(args, kwargs) if _is_eligible(tensor, counts)
    }
    if not dtypes <= {lower, torch.float32} and torch.float32 not in dtypes:
        raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    dtype = torch.float32 if torch.float32 in dtypes else lower
    return operation(*_as(dtype, counts, args), **_as(dtype, counts, kwargs))


def _refuse(operation: Any, _counts: Counts, args: Any, kwargs: Any) -> Any:
    return operation.redispatch(torch._C.DispatchKeySet(_CUDAS), *args, **kwargs)


_CUDAS: Any = torch._C.DispatchKey.AutocastCUDA

_OF_MACROS: Mapping[str, Policy] = {
    "AT_FORALL_LOWER_PRECISION_FP": _lower,
    "AT_FORALL_FP32": _in_fp32,
    "AT_FORALL_FP32_SET_OPT_DTYPE": _set_dtype,
    "AT_FORALL_PROMOTE": _promote,
}


def _is_eligible(tensor: torch.Tensor, counts: Counts) -> bool:
    return tensor.is_floating_point() and tensor.dtype != torch.float64 and counts(tensor)


def _as(dtype: torch.dtype, counts: Counts, value: Any) -> Any:
    """Arguments with the tensors on the GPU in a type."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if _is_eligible(value, counts) else value
    if isinstance(value, list | tuple):
        return [_as(dtype, counts, item) for item in value]
    if isinstance(value, dict):
        return {name: _as(dtype, counts, item) for name, item in value.items()}
    return value
