"""Calls on their way to another process: pickled with torch's settings, which hold there too."""

from __future__ import annotations

import functools
import io
import operator
import pickle
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MethodType
from typing import Any

import cloudpickle
import torch
import torch._dynamo.config
import torch._dynamo.eval_frame
import torch._functorch.config
import torch._inductor.config
from torch.nn.utils import parametrize

from kernellab import triton_api
from kernellab.triton_api.functions import jit_settings

_dynamo: Any = torch._dynamo
_parametrize: Any = parametrize


@dataclass(frozen=True)
class Sent:
    """Pickled objects, with the settings of torch's compiler in the process that sends them."""

    content: bytes
    settings: Mapping[str, Mapping[str, Any]]
    dtype: torch.dtype

    def load(self) -> Any:
        """Return the objects."""
        # Before optimizers arrive: those that are made earlier cannot be compiled as a whole.
        _dynamo.eval_frame.TorchPatcher.patch()
        return pickle.loads(self.content)

    @contextmanager
    def settings_hold(self) -> Iterator[None]:
        """While active, the sender's settings hold."""
        before = torch.get_default_dtype()
        with ExitStack() as stack:
            for name, config in _configurations().items():
                stack.enter_context(config.patch(self.settings[name]))
            stack.callback(torch.set_default_dtype, before)
            torch.set_default_dtype(self.dtype)
            yield


def send(things: Any) -> Sent:
    """Return pickled objects.

    Raises:
        Exception: an object cannot be pickled; whatever its own methods raise.
    """
    settings = {
        name: config.get_serializable_config_copy() for name, config in _configurations().items()
    }
    with io.BytesIO() as content:
        _Pickler(content).dump(things)
        return Sent(content.getvalue(), settings, torch.get_default_dtype())


def _configurations() -> dict[str, Any]:
    return {
        "dynamo": _dynamo.config,
        "functorch": torch._functorch.config,
        "inductor": torch._inductor.config,
    }


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    """Pickles kernels, `torch.ops`, and parametrized modules too, which refuse it."""

    def reducer_override(self, value: Any) -> Any:
        """Return how the value is made again, as `copyreg` describes it."""
        if isinstance(value, triton_api.JITFunction):
            kind: Any = type(value)
            return functools.partial(kind, **jit_settings(value)), (value.fn,)
        if value is torch.ops:
            return operator.attrgetter("ops"), (torch,)
        if isinstance(value, MethodType) and _is_found_by_name(value):
            # By its name, since torch replaces methods such as an optimizer's `step`.
            return getattr, (value.__self__, value.__name__)
        if isinstance(value, torch.nn.Module) and _parametrize.is_parametrized(value):
            own = _parametrize.type_before_parametrizations(value)
            return _parametrized, (own, vars(value))
        if isinstance(value, torch.Tensor):
            return _reduce_tensor(value)
        return super().reducer_override(value)


def _reduce_tensor(tensor: torch.Tensor) -> Any:
    """What torch's own pickling leaves out: the gradient of a leaf, and formats of one byte."""
    if tensor.is_leaf and tensor.grad is not None:
        made: Any = tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]
        return _with_gradient, (made[0], made[1], tensor.grad), *made[2:]
    is_plain = type(tensor) is torch.Tensor and not tensor.requires_grad
    if is_plain and tensor.is_floating_point() and tensor.element_size() == 1:
        return torch.Tensor.view, (tensor.view(torch.uint8), tensor.dtype)
    return NotImplemented


def _with_gradient(make: Any, arguments: tuple[Any, ...], gradient: torch.Tensor) -> torch.Tensor:
    tensor: torch.Tensor = make(*arguments)
    tensor.grad = gradient
    return tensor


def _is_found_by_name(method: MethodType) -> bool:
    return getattr(type(method.__self__), method.__name__, None) is method.__func__


def _parametrized(own: type[torch.nn.Module], attributes: dict[str, Any]) -> torch.nn.Module:
    """Make a module whose parameters are computed: what `register_parametrization` does."""
    module = own.__new__(own)
    vars(module).update(attributes)
    _parametrize._inject_new_class(module)
    for name in attributes["_modules"]["parametrizations"]:
        _parametrize._inject_property(module, name)
    return module
