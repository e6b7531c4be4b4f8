"""Calls on their way to another process: pickled with torch's settings, which hold there too."""

from __future__ import annotations

import functools
import inspect
import io
import operator
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import cloudpickle
import torch
import torch._dynamo.config
import torch._dynamo.eval_frame
import torch._functorch.config
import torch._inductor.config
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._library.triton import triton_ops_to_kernels
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
        # Before optimizers arrive: those that are made earlier cannot be compiled as a whole.
        _dynamo.eval_frame.TorchPatcher.patch()
        _, things = pickle.loads(self.content)
        return things

    @contextmanager
    def settings_hold(self) -> Iterator[None]:
        """While active, the sender's settings hold, and modules that arrive take the place of this
        process's own.
        """
        before = torch.get_default_dtype()
        with ExitStack() as stack:
            stack.callback(_restore_modules)
            for name, config in _configurations().items():
                stack.enter_context(config.patch(self.settings[name]))
            stack.callback(torch.set_default_dtype, before)
            torch.set_default_dtype(self.dtype)
            yield


def send(things: Any, *, keep_devices: bool = False) -> Sent:
    """Return pickled objects.

    Args:
        things: the objects to pickle.
        keep_devices: whether tensors of a GPU arrive on the GPU; otherwise they arrive on the CPU.

    Raises:
        Exception: an object cannot be pickled; whatever its own methods raise.
    """
    settings = {
        name: config.get_serializable_config_copy() for name, config in _configurations().items()
    }
    operations: list[CustomOpDef] = []
    while True:
        content = io.BytesIO()
        pickler = _Pickler(content, keep_devices)
        pickler.dump((operations, things))
        named = [
            operation
            for operation in OPDEFS.values()
            if {operation._namespace, operation._name} <= pickler.names
        ]
        if len(named) == len(operations):
            return Sent(content.getvalue(), settings, torch.get_default_dtype())
        operations = named


def _configurations() -> dict[str, Any]:
    return {
        "dynamo": _dynamo.config,
        "functorch": torch._functorch.config,
        "inductor": torch._inductor.config,
    }


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    """Pickles kernels, `torch.ops`, custom operations and parametrized modules too, tensors of
    a GPU as tensors of the CPU, and functions with the module whose variables they read.

    Attributes:
        names: the names that functions read: an operation of "torch.ops.mine.add" has two of them.
    """

    def __init__(self, file: io.BytesIO, keep_devices: bool) -> None:
        super().__init__(file)
        self._keep_devices = keep_devices
        self.names: set[str] = set()
        for name in ("__main__", *cloudpickle.list_registry_pickle_by_value()):
            variables = vars(sys.modules[name])
            self.globals_ref[id(variables)] = _Variables(variables, __name__=name)

    def reducer_override(self, value: Any) -> Any:
        """Return how the value is made again, as `copyreg` describes it."""
        if isinstance(value, FunctionType):
            self.names.update(_names_in(value.__code__))
        if isinstance(value, triton_api.JITFunction):
            kind: Any = type(value)
            return functools.partial(kind, **jit_settings(value)), (value.fn,)
        if isinstance(value, _Variables):
            return _variables_of, (value.of_module(),)
        if isinstance(value, torch.storage.TypedStorage) and not self._keep_devices:
            made: Any = value.__reduce__()  # type: ignore[no-untyped-call]
            return _storage_on_cpu, made[1]
        if value is torch.ops:
            return operator.attrgetter("ops"), (torch,)
        if isinstance(value, CustomOpDef):
            return _reduce_operation(value)
        if isinstance(value, MethodType) and (
            getattr(type(value.__self__), value.__name__, None) is value.__func__
        ):
            # By its name, since torch replaces methods such as an optimizer's `step`.
            return getattr, (value.__self__, value.__name__)
        if isinstance(value, torch.nn.Module) and _parametrize.is_parametrized(value):
            own = _parametrize.type_before_parametrizations(value)
            return _parametrized, (own, vars(value))
        if isinstance(value, torch.Tensor):
            return _reduce_tensor(value)
        return super().reducer_override(value)


class _Variables(dict[str, Any]):
    """Stands for the variables of a module whose functions and classes are pickled by value.

    Dynamo looks up what a function reads in the module that is imported by the function's
    `__module__`, not in the function's `__globals__`, unless it is the function that was called. So
    both have to be the same variables where the function arrives.
    """

    _PLACE = ("__name__", "__package__", "__path__", "__file__")

    def of_module(self) -> dict[str, Any]:
        """Return what the module has before any function adds a variable."""
        return {name: self[name] for name in self._PLACE if name in self}


_arrived: dict[str, ModuleType] = {}
"""Modules whose functions arrived. Each stays the same object, as Dynamo remembers its imports."""

_replaced: dict[str, ModuleType | None] = {}
"""Modules of this process whose place those have taken."""


def _variables_of(place: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of an empty module, which takes the place of the one of its name."""
    name = place["__name__"]
    _replaced.setdefault(name, sys.modules.get(name))
    sys.modules[name] = _arrived.setdefault(name, ModuleType(name))
    variables = vars(sys.modules[name])
    variables.clear()
    variables.update(place)
    return variables


def _restore_modules() -> None:
    for name, module in _replaced.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module
    _replaced.clear()


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _names_in(value)


def _storage_on_cpu(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)


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


def _reduce_operation(operation: Any) -> Any:
    """How `torch.library.custom_op` or `triton_op` defines an operation once more."""
    arguments = operation._opoverload._schema.arguments
    define: Any
    function, kernels, fake = operation._init_fn, {}, operation._abstract_fn
    if operation._qualname in triton_ops_to_kernels:
        function, fake = fake, None  # what it was made of computes its shapes too
        written = [
            argument.name
            for argument in arguments
            if argument.alias_info and argument.alias_info.is_write
        ]
        define = functools.partial(
            torch.library.triton_op, operation._qualname, mutates_args=written
        )
    else:
        place = operation._namespace, operation._name, operation._schema
        define = functools.partial(CustomOpDef, *place, tags=operation._tags)
        for device, kernel in operation._backend_fns.items():
            kernels[device] = inspect.getclosurevars(inspect.unwrap(kernel)).nonlocals["fn"]
    gradient = operation._backward_fn, operation._setup_context_fn
    return _define_operation, (define, function, kernels, fake, gradient)


def _define_operation(
    define: Any, function: Any, kernels: dict[str | None, Any], fake: Any, gradient: tuple[Any, Any]
) -> Any:
    operation = define(function)
    for device, kernel in kernels.items():
        operation.register_kernel(device)(kernel)
    if fake is not None:
        operation.register_fake(fake)
    if gradient[0] is not None:
        operation.register_autograd(gradient[0], setup_context=gradient[1])
    return operation


def _parametrized(own: type[torch.nn.Module], attributes: dict[str, Any]) -> torch.nn.Module:
    """Make a module whose parameters are computed: what `register_parametrization` does."""
    module = own.__new__(own)
    vars(module).update(attributes)
    _parametrize._inject_new_class(module)
    for name in attributes["_modules"]["parametrizations"]:
        _parametrize._inject_property(module, name)
    return module
