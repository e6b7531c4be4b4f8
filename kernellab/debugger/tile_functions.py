"""Functions that only kernels can call, at a debugger's prompt, where tiles are NumPy arrays:
`tl.sum(x, 0)`, `scaled(x, 2.0)`.

Each call becomes a separate kernel, which Triton's front end reads and the interpreter runs, so
that it returns what the same call returns in the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy
import triton
import triton.language

from kernellab import triton_api
from kernellab.common.text import remember_source
from kernellab.compiler.binding import bind
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.interpreter.execution.inspection import Pointer
from kernellab.interpreter.execution.launcher import Stepping, launch_stepped
from kernellab.interpreter.execution.stepping_code import stepping_code
from kernellab.ir import tt
from kernellab.records import Target


def for_prompts(scope: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """Return a function's globals, in which Triton's modules and JIT functions are replaced by
    objects that take arrays.
    """
    return {name: _for_arrays(name, value, target) for name, value in scope.items()}


def _for_arrays(words: str, value: Any, target: Target) -> Any:
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "triton":
        return TileModule(words, value, target)
    if triton_api.only_kernels_call(value):
        return TileFunction(words, value, target)
    return value


class TileModule(ModuleType):
    """A module of Triton whose functions take arrays."""

    def __init__(self, words: str, module: ModuleType, target: Target) -> None:
        super().__init__(module.__name__, module.__doc__)
        self._words = words
        self._module = module
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return _for_arrays(f"{self._words}.{name}", getattr(self._module, name), self._target)

    def __dir__(self) -> list[str]:
        return dir(self._module)

    def __repr__(self) -> str:
        return repr(self._module)


class TileFunction:
    """A function that only kernels can call, which takes arrays; its attributes are unchanged."""

    def __init__(self, words: str, function: Any, target: Target) -> None:
        self._words = words
        self._function = function
        self._target = target

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Return what the function returns for tiles with these elements: an array, a NumPy scalar
        or a tuple of them.

        Raises:
            ArgumentError: it does not work at the prompt, or the compiler or the interpreter
                refuses the call.
        """
        try:
            return _called(self._function, args, keywords, self._target)
        except KernelLabError as error:
            problem = error.problem.removeprefix(
                f"Triton cannot compile {_NAME!r} for {self._target}: "
            )
            raise ArgumentError(f"{self._words}: {problem}", advice=error.advice) from None

    def __getitem__(self, grid: Any) -> Any:
        return self._function[grid]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __repr__(self) -> str:
        return repr(self._function)


# One call as a kernel

_NAME = "call"
_RESULT = "kernellab_result"


def _called(function: Any, args: Sequence[Any], keywords: Mapping[str, Any], target: Target) -> Any:
    text = _KernelText()
    spelled = [text.spelled(value) for value in args]
    spelled += [f"{name}={text.spelled(value)}" for name, value in keywords.items()]
    source = text.source(f"{text.spelled(function)}({', '.join(spelled)})")
    kernel = _kernel(source, tuple(text.functions.items()))
    call = bind(kernel, (), text.values, target)
    code = stepping_code(kernel, call, target, traced=True)
    if any(
        isinstance(op, tt.GetProgramIdOp | tt.GetNumProgramsOp) for op in code.program.operations
    ):
        raise ArgumentError(
            "The program's id and the grid are not available at the prompt.",
            advice="`pid` is the id, unless the kernel has a variable of that name.",
        )
    observer = _ResultObserver()
    launch_stepped(kernel, (1,), call, Stepping(code, [(0, 0, 0)], hook=observer))
    return observer.result


@lru_cache(maxsize=256)
def _kernel(source: str, functions: tuple[tuple[str, Any], ...]) -> Any:
    """Return the kernel of a source; kept, because a condition makes its call at each stop."""
    file = f"<call at the prompt {hash(source):x}>"
    remember_source(file, source)
    scope = {"tl": triton.language, "__name__": __name__, **dict(functions)}
    exec(compile(source, file, "exec"), scope)  # noqa: S102 - the text is this module's own
    return triton.jit(scope[_NAME])


class _KernelText:
    """The source of one call's kernel, which loads its arrays; everything else is compiled in.

    Attributes:
        values: the arguments by parameter.
        functions: the functions that it calls or passes on, by name.
    """

    def __init__(self) -> None:
        self.functions: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self._parameters: list[str] = []
        self._loads: list[str] = []

    def source(self, expression: str) -> str:
        """Return the source, in which `_RESULT` is the expression's value."""
        lines = [f"def {_NAME}({', '.join(self._parameters)}):", *self._loads]
        return "\n".join([*lines, f"    {_RESULT} = {expression}", ""])

    def spelled(self, value: Any) -> str:
        """Return the text for a value in the expression."""
        if isinstance(value, Pointer):
            raise ArgumentError(
                "Pointers cannot be passed at the prompt.",
                advice=(
                    "x_ptr[:8] reads elements of a tensor, and (x_ptr + offsets)[...] those at "
                    "offsets."
                ),
            )
        if isinstance(value, tuple | list) and any(map(_has_arrays, value)):
            return f"({', '.join(map(self.spelled, value))},)"
        if _has_arrays(value):
            return self._loaded(numpy.asarray(value))
        function = value._function if isinstance(value, TileFunction) else value
        if triton_api.only_kernels_call(function):
            name = f"function_{len(self.functions)}"
            self.functions[name] = function
            return name
        name = f"value_{len(self.values)}"
        self.values[name] = value
        self._parameters.append(f"{name}: tl.constexpr")
        return name

    def _loaded(self, array: numpy.ndarray) -> str:
        if any(size & (size - 1) or not size for size in array.shape):
            raise ArgumentError(
                f"The sizes of a tile must be powers of two, got the shape {array.shape}.",
                advice="NumPy's functions take any shape: np.sum(x[:3]).",
            )
        pointer = f"pointer_{len(self.values)}"
        self.values[pointer] = array.reshape(-1).copy()
        self._parameters.append(pointer)
        places = f"tl.reshape(tl.arange(0, {array.size}), {list(array.shape)})"
        name = pointer.replace("pointer", "tile")
        self._loads.append(
            f"    {name} = tl.load({pointer}{f' + {places}' if array.shape else ''})"
        )
        return name


def _has_arrays(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_arrays, value))
    return isinstance(value, numpy.ndarray | numpy.generic | Pointer)


class _ResultObserver:
    """The hook of the traced kernel, which keeps the value of the result's variable."""

    result: Any = None

    def line(self, number: int) -> None:
        """Do nothing before a line."""

    def bound(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Keep the result's value; variables of called functions come before the kernel's own."""
        self.result = dict(zip(names, values)).get(_RESULT, self.result)
