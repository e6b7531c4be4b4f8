"""The code that Inductor generates: loaded and run without a GPU, with notes of the values that it
computes; and marks of the same values on traced graphs.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch._inductor.async_compile
import torch._inductor.codecache
import torch._inductor.runtime.cache_dir_utils
import torch._inductor.runtime.triton_helpers
import torch._subclasses.functional_tensor
import torch.fx.experimental.proxy_tensor
import torch.fx.experimental.symbolic_shapes
import torch.library

from kernellab.common.patches import all_replaced, replaced
from kernellab.common.system import own_folder
from kernellab.torch_api.virtual_gpu import ON_CPU

# Inductor's generated code, with a note after each statement that computed a value to its end.

SEEN = "kernellab_seen"
"""The function that the code calls after each such statement: number, {name: value}."""

_MAKES_NOTHING = ("empty_strided", "reinterpret_tensor", "assert_size_stride", "assert_alignment")
_WRITTEN = ("out_ptr", "in_out_ptr")
"""How Inductor calls parameters that a kernel writes through."""


def watched(
    wrapper: str, kernels: Mapping[str, str], parameters: Mapping[str, Sequence[str]]
) -> tuple[str, dict[int, ast.stmt], frozenset[str]]:
    """The code with its notes, the statements by number, and the names that are noted: each once,
    after the last statement that writes to its value.

    Args:
        wrapper: as Inductor writes it.
        kernels: variable of a kernel -> the source that stands in for Inductor's.
        parameters: variable of a kernel -> names of its parameters, in order.
    """
    tree = ast.parse(wrapper)
    _Sources(kernels).visit(tree)
    notes = _Notes(parameters)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "call":
            notes.add_to(node.body)
    names = notes.keep_last()
    return ast.unparse(ast.fix_missing_locations(tree)), notes.statements, names


def launched(statement: ast.stmt) -> tuple[str, tuple[str, ...]] | None:
    """A kernel's variable and names of its arguments, of a statement that launches it ("" for a
    number).
    """
    match statement:
        case ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Name(kernel), attr="run"), args=arguments)
        ):
            return kernel, tuple(
                argument.id if isinstance(argument, ast.Name) else "" for argument in arguments
            )
    return None


class _Sources(ast.NodeTransformer):
    """Puts other sources of kernels in."""

    def __init__(self, kernels: Mapping[str, str]) -> None:
        self._kernels = kernels

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        match node:
            case ast.Assign([ast.Name(kernel)], ast.Call() as call) if kernel in self._kernels:
                call.args[1] = ast.Constant(self._kernels[kernel])
        return node


class _Notes:
    def __init__(self, parameters: Mapping[str, Sequence[str]]) -> None:
        self.statements: dict[int, ast.stmt] = {}
        self._parameters = parameters
        self._names: dict[int, ast.Dict] = {}

    def add_to(self, body: list[ast.stmt]) -> None:
        """A note after each statement that computes."""
        made: list[ast.stmt] = []
        for statement in body:
            for inner in ("body", "orelse"):
                if isinstance(getattr(statement, inner, None), list):
                    self.add_to(getattr(statement, inner))
            made.append(statement)
            names = tuple(dict.fromkeys(self._written(statement)))
            if names:
                made.append(self._note(statement, names))
        body[:] = made

    def keep_last(self) -> frozenset[str]:
        """Leave each name in the last note that has it; gives all names."""
        last: dict[str, int] = {}
        for number, names in self._names.items():
            last.update({ast.literal_eval(key): number for key in names.keys if key is not None})
        for number, names in self._names.items():
            kept = [
                (key, value)
                for key, value in zip(names.keys, names.values, strict=True)
                if key is not None and last[ast.literal_eval(key)] == number
            ]
            names.keys = [key for key, _ in kept]
            names.values = [value for _, value in kept]
        return frozenset(last)

    def _note(self, statement: ast.stmt, names: tuple[str, ...]) -> ast.stmt:
        """`kernellab_seen(3, {'buf0': buf0})`."""
        number = len(self.statements)
        self.statements[number] = statement
        keys: list[ast.expr | None] = [ast.Constant(name) for name in names]
        values: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
        self._names[number] = ast.Dict(keys, values)
        called = ast.Name(SEEN, ast.Load())
        return ast.Expr(ast.Call(called, [ast.Constant(number), self._names[number]], []))

    def _written(self, statement: ast.stmt) -> Iterator[str]:
        launch = launched(statement)
        if launch is not None:
            kernel, names = launch
            for name, parameter in zip(names, self._parameters.get(kernel, ()), strict=False):
                if name and parameter.startswith(_WRITTEN):
                    yield name
            return
        match statement:
            case ast.Expr(ast.Call() as call) if not _is_of_no_value(call):
                out = [keyword.value for keyword in call.keywords if keyword.arg == "out"]
                for argument in out or call.args:
                    yield from (
                        name_node.id
                        for name_node in ast.walk(argument)
                        if isinstance(name_node, ast.Name)
                    )
            case ast.Assign([ast.Name(name)], ast.Call() as call) if not _is_of_no_value(call):
                yield name
            case ast.Assign([ast.Name(name)], ast.Subscript()):
                yield name


def _is_of_no_value(call: ast.Call) -> bool:
    return ast.unparse(call.func).startswith(_MAKES_NOTHING)


# Modules that Inductor writes, loaded and run without a GPU.

_async_compile: Any = torch._inductor.async_compile
_codecache: Any = torch._inductor.codecache
_cache_dirs: Any = torch._inductor.runtime.cache_dir_utils
_helpers: Any = torch._inductor.runtime.triton_helpers
_library: Any = torch.library

Launch = Callable[[Any, Sequence[Any]], None]
"""Launches a kernel, a `CachingAutotuner`, with what its generated call gives, on the CPU."""


def check_cache_folder() -> None:
    """Make Inductor's folder in the folder for temporary files, which has a name that is known in
    advance, and whose files torch executes. Raises MachineError: it belongs to another user, or
    others can write in it.
    """
    default = _cache_dirs.default_cache_dir()
    if os.environ.get("TORCHINDUCTOR_CACHE_DIR", default) == default:
        own_folder(default)


def kernel_in(source: str, name: str) -> Any:
    """The kernel of a generated module, a `CachingAutotuner`: the module is executed."""
    check_cache_folder()
    with replaced(_helpers, set_driver_to_gpu=lambda: None):
        return getattr(_codecache.PyCodeCache.load(source), name)


def callable_in(
    wrapper: str, launch: Launch, names: Mapping[str, Any] | None = None, device: str = "cpu"
) -> Callable[[list[Any]], Any]:
    """The generated code of a graph as a function of its inputs, on tensors of the CPU.

    Args:
        wrapper: the code; it is executed.
        launch: what runs its kernels.
        names: what the code may call besides.
        device: "meta" for tensors without values, whose strides are then not checked.
    """

    class Kernel:
        """Replaces a compiled kernel in the code."""

        def __init__(self, name: str, source: str) -> None:
            self._kernel = kernel_in(source, name)
            # Nothing is timed here, so that there is nothing to choose from.
            self._kernel.configs = list(self._kernel.configs)[:1]
            self.launch = launch

        def run(self, *args: Any, stream: Any = None, **keywords: Any) -> None:
            del stream
            self.launch(self._kernel, (*args, *keywords.values()))

    def compiled(_compiler: Any, name: str, source: str, **_options: Any) -> Kernel:
        return Kernel(name, source)

    check_cache_folder()
    with _gpu_is_cpu(), replaced(_async_compile.AsyncCompile, triton=compiled):
        module = _codecache.PyCodeCache.load(_ASSERTED.sub(_RESTRIDED, wrapper))
    for value in vars(module).values():
        if hasattr(value, "launch"):  # torch has kept the module of an earlier call
            value.launch = launch
    vars(module).update({"kernellab_restrided": _restrided, **(names or {})})
    module.empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(
        size, stride, dtype=dtype, device=device
    )
    module.device = lambda *_args, **_keywords: torch.device(device)
    if device == "meta":
        module.assert_size_stride = lambda *_args: None
    call = module.call if hasattr(module, "call") else module.runner.call

    def run(args: list[Any]) -> Any:
        with _gpu_is_cpu():
            return call(args)

    return run


_ASSERTED = re.compile(
    r"^(?P<indent> +)assert_size_stride\((?P<name>\w+), (?P<facts>\([^)]*\), \([^)]*\)).*\)$", re.M
)
"""An assertion of Inductor's that a result of an operation of torch's, or what the forward graph
saved of one, has the strides that it has on a GPU. On the CPU it may have others, such as weights'
gradients of a channels-last convolution, and Fourier transforms.
"""
_RESTRIDED = r"\g<indent>\g<name> = kernellab_restrided(\g<name>, \g<facts>)"


def _restrided(
    tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    """The tensor with these strides. Its sizes must be right."""
    assert tensor.size() == size, f"expected {size}, got {tuple(tensor.size())}"
    if any(
        along > 1 and its != of_gpu for along, its, of_gpu in zip(size, tensor.stride(), stride)
    ):
        made = torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device)
        return made.copy_(tensor)
    return tensor


@contextmanager
def _gpu_is_cpu() -> Iterator[None]:
    """While active, queries of generated code to its GPU are answered, and fused attention runs."""
    with (
        replaced(
            torch.cuda,
            _DeviceGuard=nullcontext,
            device=nullcontext,
            set_device=lambda _device: None,
            synchronize=lambda _device=None: None,
        ),
        all_replaced([(torch._C, "_cuda_getCurrentRawStream", lambda _device: 0)]),
        replaced(_helpers, set_driver_to_gpu=lambda: None),
    ):
        library = _library.Library("aten", "IMPL")
        try:
            for operation, written_out in ON_CPU.items():
                library.impl(operation, written_out, "CPU")
            yield
        finally:
            library._destroy()


# Which value of a traced graph is the value of which node of the FX graph, or its gradient:
# noted while AOTAutograd traces, and kept in the nodes' metadata through partitioning and
# passes.

_proxies: Any = torch.fx.experimental.proxy_tensor
_symbolic: Any = torch.fx.experimental.symbolic_shapes
_functional: Any = torch._subclasses.functional_tensor
_synchronize: Any = torch._sync  # type: ignore[attr-defined]
_unwrapped: Any = torch._from_functional_tensor

Mark = tuple[str, str]
""" "value" or "gradient", and the name of the FX node."""

_KEY = "kernellab_values"


def marks_of(node: torch.fx.Node) -> tuple[Mark, ...]:
    return tuple(node.meta.get(_KEY, ()))


def values_marked() -> AbstractContextManager[None]:
    """While active, AOTAutograd's graphs have marks."""
    interpreter = _symbolic.PropagateUnbackedSymInts
    original = interpreter.run_node

    def run_node(self: Any, node: torch.fx.Node) -> Any:
        result = original(self, node)
        if isinstance(result, torch.Tensor) and node.op != "output":
            _mark(result, ("value", node.name))
            if result.requires_grad and _proxies.get_proxy_mode() is not None:
                hooked: Any = result
                hooked.register_hook(lambda gradient: _mark(gradient, ("gradient", node.name)))
        return result

    return replaced(interpreter, run_node=run_node)


def _mark(value: Any, mark: Mark) -> None:
    mode = _proxies.get_proxy_mode()
    if mode is None or not isinstance(value, torch.Tensor):
        return
    if isinstance(value, _functional.FunctionalTensor):
        _synchronize(value)  # a gradient may have been written to in place
        value = _unwrapped(value.elem)
    traced = _proxies.get_proxy_slot(value, mode.tracer, None)
    if traced is not None:
        traced.proxy.node.meta.setdefault(_KEY, []).append(mark)
