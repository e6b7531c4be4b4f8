"""What `torch.autocast("cuda")` does with each operation, for tensors in the CPU's memory.

The compiled kernels of autocast cast only what is really on a GPU. So each of their operations gets
a kernel in Python, for a dispatch key that nothing else uses. Which operations these are, and how
they are cast, is read from torch's own header.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from kernellab.errors import UnsupportedOperation

_HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"

_dispatching: Any = torch._C
_library: Any = torch.library

_KEY: Any = _dispatching.DispatchKey.AutocastIPU
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
        if any(map(counts, _tensors((args, kwargs)))):
            return policy(operation, counts, args, kwargs)
        return operation(*args, **kwargs)


# Policies


@functools.cache
def policies() -> Mapping[str, Policy]:
    """What each operation's kernel does (ATen/autocast_mode.h), by name and overload.

    Raises:
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
    """Whether this version of torch has an operation."""
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
    dtypes = {tensor.dtype for tensor in _tensors((args, kwargs)) if _is_eligible(tensor, counts)}
    if not dtypes <= {lower, torch.float32} and torch.float32 not in dtypes:
        raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    dtype = torch.float32 if torch.float32 in dtypes else lower
    return operation(*_as(dtype, counts, args), **_as(dtype, counts, kwargs))


def _refuse(operation: Any, _counts: Counts, args: Any, kwargs: Any) -> Any:
    """The compiled kernel, which raises."""
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


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
