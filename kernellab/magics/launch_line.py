"""A launch written on a magic's line, `add[grid](x, y, n, BLOCK=1024)`,
taken apart instead of carried out.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from kernellab.errors import OptionError, SourcePosition
from kernellab.magics.notebook_names import unknown_name

_COLLECT = "__kernellab_collect__"


@dataclass(frozen=True)
class LaunchLine:
    """What stands in a launch: `kernel[grid](*args, **keywords)`."""

    kernel: Any
    grid: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]


def read_launch(
    text: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition
) -> LaunchLine:
    """Evaluate the parts of the launch in the user's namespace.

    `magic` is written as the user does, "%tilestep" or "%%tiletune".

    Raises:
        OptionError: the text is no launch, or names something that the notebook does not have;
            points at `position`, the magic's line.
        Exception: whatever evaluating a part raises.
    """
    if not text.strip():
        _refuse("no launch is given", magic, position)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        _refuse(f"{text.strip()!r} cannot be read: {error.msg}", magic, position)
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Subscript)):
        _refuse(f"{text.strip()!r} is no launch", magic, position)
    scope = {**namespace, _COLLECT: lambda *args, **keywords: (args, keywords)}
    _refuse_unknown_names(tree, namespace, magic, position)
    collected = ast.Call(ast.Name(_COLLECT, ast.Load()), tree.args, tree.keywords)
    kernel, grid = (_value(node, scope) for node in (tree.func.value, tree.func.slice))
    args, keywords = _value(collected, scope)
    return LaunchLine(kernel, grid, args, keywords)


def read_call(
    text: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Evaluate function and arguments of a call, `model(x)`, in the user's namespace, without the
    call.

    Raises:
        OptionError: the text is no call, or names something that the notebook does not have.
        Exception: whatever evaluating a part raises.
    """
    tree = ast.parse(text.strip(), mode="eval").body
    if not isinstance(tree, ast.Call):
        raise OptionError(
            f"{magic}: {text.strip()!r} is no call",
            advice="The cell's last line is the call to open, as in model(x).",
            position=position,
        )
    _refuse_unknown_names(tree, namespace, magic, position)
    scope = {**namespace, _COLLECT: lambda *args, **keywords: (args, keywords)}
    collected = ast.Call(ast.Name(_COLLECT, ast.Load()), tree.args, tree.keywords)
    args, keywords = _value(collected, scope)
    return _value(tree.func, scope), args, keywords


def _refuse_unknown_names(
    tree: ast.expr, namespace: Mapping[str, Any], magic: str, position: SourcePosition
) -> None:
    """Refuse a launch with a name that nothing has;
    names that the launch itself gives a meaning (of a lambda, a comprehension) are left alone.
    """
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in named if not isinstance(node.ctx, ast.Load)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in named:
        name = node.id
        if name in own or name in namespace or hasattr(builtins, name):
            continue
        raise unknown_name(name, namespace, magic, position)


def _value(node: ast.expr, scope: dict[str, Any]) -> Any:
    expression = ast.fix_missing_locations(ast.Expression(node))
    return eval(compile(expression, "<magic>", "eval"), scope)


def _refuse(problem: str, magic: str, position: SourcePosition) -> NoReturn:
    raise OptionError(
        f"{magic}: {problem}",
        advice=f"Write the launch as you would run it: {_example(magic)}.",
        position=position,
    )


def _example(magic: str) -> str:
    """A launch on the line of a magic, or at the end of its cell."""
    if magic.startswith("%%"):
        return "add[grid](x, y, n)"
    return f"{magic} add[grid](x, y, n, BLOCK=1024)"
