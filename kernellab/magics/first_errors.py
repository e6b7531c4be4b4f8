"""Advice on common first errors whose messages by Python, torch and Triton do not help.

It is shown below the error's traceback, which does not change. To add an error, add a row
to `_PLAIN` or a function under `@_advises`, and a row in `tests/magics/test_first_errors.py`.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from types import FunctionType, TracebackType
from typing import Any

import triton

from kernellab.compiler.compilations import Compilation
from kernellab.errors import WITHOUT_SOURCE, label_file
from kernellab.errors.exceptions import nearest
from kernellab.torch_api.inductor import is_inductor_kernel
from kernellab.triton_api import JITFunction


@dataclass(frozen=True)
class _Place:
    """Where an error was raised in code of the user's."""

    names: Mapping[str, Any]
    expression: str
    """The expression that raised, as it is written; "" if it is not known."""


_Advice = Callable[["re.Match[str]", _Place], str]
_NO_GPU = (
    'There is no GPU here. Leave out .cuda() and device="cuda": kernels of a %%tilekernel cell run '
    "on tensors of the CPU."
)
_NO_RESULT = (
    "A launch does not return values. Read the results from the tensors that the kernel stores to."
)
_PLAIN: tuple[tuple[type[BaseException], str, str], ...] = (
    (AssertionError, r"Torch not compiled with CUDA enabled", _NO_GPU),
    (RuntimeError, r"Found no NVIDIA driver|No CUDA GPUs are available|No HIP GPUs are", _NO_GPU),
    (  # of a cell that imports Triton by way of another module, and launches
        RuntimeError,
        r"^0 active drivers",
        "There is no GPU here for Triton's own launch. Run the cell again: now that Triton is "
        "imported, its launches run on the CPU.",
    ),
    (ValueError, r"^@jit functions should be defined in a Python file", WITHOUT_SOURCE),
    (
        NameError,
        r"name '__file__' is not defined",
        "A cell is not a file. In code that Inductor generated, write filename=None.",
    ),
    (TypeError, r"unsupported operand type\(s\) for .*'Run'", _NO_RESULT),
    (TypeError, r"^'Run' object is not|must be Tensor, not Run", _NO_RESULT),
    (AttributeError, r"^'Run' object has no attribute", _NO_RESULT),
)
"""Class, pattern of the message, and advice that depends on nothing else."""

_ADVICE: list[tuple[type[BaseException], re.Pattern[str], _Advice]] = [
    (kind, re.compile(pattern), lambda _match, _place, words=words: words)  # type: ignore[misc]
    for kind, pattern, words in _PLAIN
]


def advice_on(error: BaseException) -> str:
    """What to do about an error that a cell ended with; "" if it is not known."""
    for kind, pattern, advise in _ADVICE:
        if isinstance(error, kind) and (match := pattern.search(str(error))):
            place = _place_of(error)
            return "" if place is None else advise(match, place)
    return ""


def _place_of(error: BaseException) -> _Place | None:
    traceback, innermost = error.__traceback__, None
    while traceback is not None:
        if "site-packages" not in traceback.tb_frame.f_code.co_filename:
            innermost = traceback
        traceback = traceback.tb_next
    if innermost is None:
        return None
    frame = innermost.tb_frame
    return _Place({**frame.f_globals, **frame.f_locals}, _expression(innermost))


def _expression(traceback: TracebackType) -> str:
    code = traceback.tb_frame.f_code
    positions = next(islice(code.co_positions(), traceback.tb_lasti // 2, None), None)
    if positions is None or None in positions:
        return ""
    first, last, start, end = positions
    numbers = range(first or 0, (last or 0) + 1)
    # Columns count bytes of UTF-8.
    lines = [linecache.getline(code.co_filename, number).encode() for number in numbers]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace")


def _advises(kind: type[BaseException], pattern: str) -> Callable[[_Advice], _Advice]:
    def register(advise: _Advice) -> _Advice:
        _ADVICE.append((kind, re.compile(pattern), advise))
        return advise

    return register


@_advises(ValueError, r"Pointer argument \(at (\d+)\) cannot be accessed from Triton")
def _cpu_tensor(_: re.Match[str], place: _Place) -> str:
    name = _called(place, JITFunction)
    which = f"the cell that defines {name}" if name else "the cell that defines the kernel"
    return (
        "A tensor of this launch is on the CPU. Move it to the GPU, x.cuda(); or write "
        f"%%tilekernel on the first line of {which}: then launches with CPU tensors run on the CPU."
    )


@_advises(TypeError, r"'function' object is not subscriptable")
def _not_decorated(_: re.Match[str], place: _Place) -> str:
    name = _called(place, FunctionType)
    if not name:
        return ""
    code = place.names[name].__code__
    where = label_file(code.co_filename)
    return (
        f"{name} is a plain function. To launch it as a kernel, put @triton.jit above its def "
        f"({where}, line {code.co_firstlineno}), and run that cell again."
    )


@_advises(RuntimeError, r"Cannot call @triton\.jit'd outside of the scope of a kernel")
def _no_grid(_: re.Match[str], place: _Place) -> str:
    call = _parsed(place.expression)
    if not isinstance(call, ast.Call):
        return ""
    name = ast.get_source_segment(place.expression, call.func)
    arguments = place.expression[len(name or "") :].strip()[1:-1]
    return (
        f"A kernel is launched on a grid, the number of its programs: {name}[(programs,)]"
        f"({arguments}). Where BLOCK elements are a program's: {name}[(triton.cdiv(n, BLOCK),)]."
    )


@_advises(RuntimeError, r"^Could not find an active GPU backend")
@_advises(TypeError, r"^CachingAutotuner\.run\(\) missing")
def _inductor_asks(_: re.Match[str], place: _Place) -> str:
    tree = _parsed(place.expression)
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)] if tree else []
    for name in names:
        if is_inductor_kernel(place.names.get(name)):
            return (
                f"Inductor launches on a GPU. On the CPU: kernellab.run({name}, None, ...), with "
                "the same arguments; None stands for the grid that Inductor takes."
            )
    return (
        "There is no GPU here, and KernelLab needs none for a kernel that Inductor generated: "
        "leave out triton_helpers.set_driver_to_gpu()."
    )


@_advises(NameError, r"name '(\w+)' is not defined")
def _not_imported(match: re.Match[str], place: _Place) -> str:
    module = _IMPORTS.get(match[1])
    if module:
        return f"Run `{module}` in an earlier cell."
    if hasattr(triton.language, match[1]):
        return f"Write tl.{match[1]}."
    return nearest(match[1], [name for name in place.names if not name.startswith("_")])


@_advises(AttributeError, r"^'(?:TileKernel|JITFunction)' object has no attribute '(\w+)'")
def _not_the_kernels(match: re.Match[str], place: _Place) -> str:
    """`add.check(...)`, `add.explore()`."""
    kernel, name = _called(place, JITFunction) or "kernel", match[1]
    if hasattr(Compilation, name) and not name.startswith("_"):
        return f"Compile it first: kernellab.compile({kernel}, ...).{name}."
    if name in sys.modules[__name__.partition(".")[0]].__all__:
        return f"Write kernellab.{name}({kernel}, ...)."
    return ""


_IMPORTS = {
    "tl": "import triton.language as tl",
    "triton": "import triton",
    "torch": "import torch",
    "np": "import numpy as np",
    "kernellab": "import kernellab",
    "gluon": "from triton.experimental import gluon",
    "gl": "from triton.experimental.gluon import language as gl",
}


def _called(place: _Place, kind: type[Any]) -> str:
    """The name, in an expression, of the first value of a kind; "" if there is none."""
    tree = _parsed(place.expression)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Name) and isinstance(place.names.get(node.id), kind):
            return node.id
    return ""


def _parsed(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:
        return None
