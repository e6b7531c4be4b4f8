"""Functions of torch, NumPy and Python in a kernel, and what a kernel says instead."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kernellab.triton_api.functions import scope_of
from kernellab.triton_api.outside_names import named_outside

_CONSTANTS = {"inf": 'float("inf")', "nan": 'float("nan")', "pi": repr(3.141592653589793)}

INSTEAD = {
    "relu": "tl.maximum({0}, 0)",
    "gelu": "0.5 * {0} * (1 + tl.erf({0} * 0.7071067811865476))",
    "silu": "{0} * tl.sigmoid({0})",
    "sigmoid": "tl.sigmoid({0})",
    "tanh": "2 * tl.sigmoid(2 * {0}) - 1",
    "softplus": "tl.log(1 + tl.exp({0}))",
    "leaky_relu": "tl.where({0} > 0, {0}, 0.01 * {0})",
    "relu6": "tl.minimum(tl.maximum({0}, 0), 6)",
    "softmax": "tl.softmax({0})",
    "log_softmax": "tl.log(tl.softmax({0}))",
    "exp": "tl.exp({0})",
    "exp2": "tl.exp2({0})",
    "expm1": "tl.exp({0}) - 1",
    "log": "tl.log({0})",
    "log2": "tl.log2({0})",
    "log10": "tl.log({0}) * 0.4342944819032518",
    "log1p": "tl.log(1 + {0})",
    "sqrt": "tl.sqrt({0})",
    "rsqrt": "tl.rsqrt({0})",
    "sin": "tl.sin({0})",
    "cos": "tl.cos({0})",
    "tan": "tl.sin({0}) / tl.cos({0})",
    "erf": "tl.erf({0})",
    "abs": "tl.abs({0})",
    "absolute": "tl.abs({0})",
    "fabs": "tl.abs({0})",
    "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})",
    "square": "{0} * {0}",
    "reciprocal": "1 / {0}",
    "neg": "-{0}",
    "negative": "-{0}",
    "sign": "tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, 0.0))",
    "isnan": "{0} != {0}",
    "isinf": 'tl.abs({0}) == float("inf")',
    "clamp": "tl.clamp({0}, {1}, {2})",
    "clip": "tl.clamp({0}, {1}, {2})",
    "where": "tl.where({0}, {1}, {2})",
    "maximum": "tl.maximum({0}, {1})",
    "fmax": "tl.maximum({0}, {1})",
    "minimum": "tl.minimum({0}, {1})",
    "fmin": "tl.minimum({0}, {1})",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "subtract": "{0} - {1}",
    "mul": "{0} * {1}",
    "multiply": "{0} * {1}",
    "div": "{0} / {1}",
    "divide": "{0} / {1}",
    "true_divide": "{0} / {1}",
    "fma": "tl.fma({0}, {1}, {2})",
    "logical_and": "({0} != 0) & ({1} != 0)",
    "logical_or": "({0} != 0) | ({1} != 0)",
    "logical_not": "{0} == 0",
    "sum": "tl.sum({0}, axis=0)",
    "mean": "tl.sum({0}, axis=0) / {0}.shape[0]",
    "max": "tl.max({0}, axis=0)",
    "amax": "tl.max({0}, axis=0)",
    "min": "tl.min({0}, axis=0)",
    "amin": "tl.min({0}, axis=0)",
    "argmax": "tl.argmax({0}, axis=0)",
    "argmin": "tl.argmin({0}, axis=0)",
    "cumsum": "tl.cumsum({0}, axis=0)",
    "cumprod": "tl.cumprod({0}, axis=0)",
    "sort": "tl.sort({0})",
    "flip": "tl.flip({0}, 0)",
    "zeros_like": "tl.zeros_like({0})",
    "ones_like": "tl.full({0}.shape, 1, {0}.dtype)",
    "ravel": "tl.ravel({0})",
    "flatten": "tl.ravel({0})",
    "matmul": "tl.dot({0}, {1})",
    "mm": "tl.dot({0}, {1})",
    "bmm": "tl.dot({0}, {1})",
    "dot": "tl.dot({0}, {1})",
    "transpose": "tl.trans({0})",
    "zeros": "tl.zeros((BLOCK,), tl.float32)",
    "empty": "tl.zeros((BLOCK,), tl.float32)",
    "ones": "tl.full((BLOCK,), 1, tl.float32)",
    "full": "tl.full((BLOCK,), value, tl.float32)",
    "arange": "tl.arange(0, BLOCK)",
    "rand": "tl.rand(seed, offsets)",
    "randn": "tl.randn(seed, offsets)",
    "randint": "tl.randint(seed, offsets)",
    "float": "{0}.to(tl.float32)",
    "int": "{0}.to(tl.int32)",
    "bool": "{0} != 0",
    "pow": "tl.exp2({1} * tl.log2({0}))",
    "power": "tl.exp2({1} * tl.log2({0}))",
}
"""By the last part of a function's name, what a kernel writes instead; {0} is its first
argument. What names BLOCK, value, seed or offsets is a form, to be filled in."""

_FORMS = ("BLOCK", "value", "seed", "offsets")

_DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")

_ROOTS = {"torch", "numpy", "math", "scipy", "jax", "cupy", "cmath", "statistics", "random"}


@dataclass(frozen=True)
class ForeignCall:
    """A name of another library's in a kernel."""

    node: ast.AST
    name: str
    """As it is written: "torch.relu"."""
    arguments: tuple[str, ...]
    """As they are written; () where it is not called."""

    @property
    def instead(self) -> str:
        """What a kernel writes; "" where nothing stands for it."""
        return instead_of(self.name.rpartition(".")[2], self.arguments)


def instead_of(name: str, arguments: tuple[str, ...] = ("x",)) -> str:
    """What a kernel writes for a function, a number or a dtype of torch's, NumPy's or math's;
    "" where nothing stands for it.
    """
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if name in _DTYPES:
        return f"tl.{name}"
    if (form := INSTEAD.get(name)) is None:
        return ""
    short = [text if _is_short(text) else letter for text, letter in zip(arguments, "xyz")]
    return form.format(*short, *"xyz"[len(short) :])


def is_form(written: str) -> bool:
    """Whether something has to be filled in yet."""
    return any(word in written for word in _FORMS)


def _is_short(text: str) -> bool:
    return text.isidentifier() or (len(text) <= 24 and text[:1].isalpha() and text[-1:] == ")")


def foreign_call(function: Any) -> ForeignCall | None:
    """The first name in a JIT function that stands for something of torch's, NumPy's, math's or
    of another library that runs outside kernels; None where there is none.
    """
    tree, source = function.parse(), str(function.src)
    outside = {path[0] for path in named_outside(function)}
    scope = {name: value for name, value in scope_of(function.fn).items() if name in outside}
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Name))]
    for node in sorted(names, key=lambda n: (n.lineno, n.col_offset, -(n.end_col_offset or 0))):
        value, written = _resolved(node, scope)
        if written and _is_foreign(value, scope, written):
            call = calls.get(id(node))
            given = call.args if call else []
            texts = tuple(ast.get_source_segment(source, argument) or "" for argument in given)
            return ForeignCall(node, written, texts)
    return None


def _resolved(node: ast.AST, scope: dict[str, Any]) -> tuple[Any, str]:
    """What a dotted name stands for, and the name; (None, "") for anything else."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return scope.get(node.id), node.id
    if isinstance(node, ast.Attribute):
        value, written = _resolved(node.value, scope)
        if isinstance(value, ModuleType):
            return getattr(value, node.attr, None), f"{written}.{node.attr}"
    return None, ""


def _is_foreign(value: Any, scope: dict[str, Any], written: str) -> bool:
    """Whether a value is another library's, by the module that it is taken of or defined in."""
    if value is None or isinstance(value, ModuleType):
        return False
    if "." in written:
        root = scope.get(written.partition(".")[0])
        return isinstance(root, ModuleType) and _root(root.__name__) in _ROOTS
    if getattr(builtins, written, None) is value:
        return False
    return _root(getattr(value, "__module__", None) or "") in _ROOTS


def _root(module: str) -> str:
    return module.partition(".")[0]
