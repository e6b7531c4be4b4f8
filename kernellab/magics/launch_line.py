"""The launch, or the call, that a magic is for: on its line, `add[grid](x, y, n, BLOCK=1024)`, or
the last expression of its cell; taken apart instead of carried out.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from kernellab.errors import OptionError, SourcePosition
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import Shell
from kernellab.magics.notebook_names import unknown_name
from kernellab.magics.options import Options, Position

_COLLECT = "__kernellab_collect__"


@dataclass(frozen=True)
class LaunchLine:
    """The parts of a launch: `kernel[grid](*args, **keywords)`."""

    kernel: Any
    grid: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]


def options_before(
    shell: Shell, options: Options, line: str
) -> tuple[dict[str, Any], str, Position]:
    """Return the options that a line begins with, its rest, and the positions of its words."""
    position = ipython_api.running_line(shell, f"{options.magic} {line}".rstrip())
    return *options.parse_leading(line, position), position


def launch_on_line(
    shell: Shell, options: Options, line: str
) -> tuple[LaunchLine, dict[str, Any], Position]:
    """Return the launch of a line, the options before it, and the positions of its words."""
    given, rest, position = options_before(shell, options, line)
    return read_launch(rest, shell.user_ns, options.magic, position("")), given, position


def read_launch(
    text: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition
) -> LaunchLine:
    """Evaluate the parts of the launch in the user's namespace.

    `magic` is written as the user does, "%tilestep" or "%%tiletune".

    Raises:
        OptionError: the text is not a launch, or names something that the notebook does not have;
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
        _refuse(f"{text.strip()!r} is not a launch", magic, position)
    _refuse_unknown_names(tree, namespace, magic, position)
    kernel, grid = (_value(node, namespace) for node in (tree.func.value, tree.func.slice))
    return LaunchLine(kernel, grid, *_arguments(tree, namespace))


def read_call(
    text: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Evaluate function and arguments of a call, `model(x)`, in the user's namespace, without the
    call.

    Raises:
        OptionError: the text is not a call, or names something that the notebook does not have.
        Exception: whatever evaluating a part raises.
    """
    tree = ast.parse(text.strip(), mode="eval").body
    if not isinstance(tree, ast.Call):
        raise OptionError(
            f"{magic}: {text.strip()!r} is not a call",
            advice="The cell's last line is the call to open, as in model(x).",
            position=position,
        )
    _refuse_unknown_names(tree, namespace, magic, position)
    args, keywords = _arguments(tree, namespace)
    return _value(tree.func, namespace), args, keywords


def run_above_last(
    running: ipython_api.RunningCell, body: str, magic: str, what: str, advice: str
) -> str:
    """Run a cell above its last expression, and return that expression.

    Args:
        running: the cell.
        body: without the magic's line.
        magic: as the user writes it: "%%tiletune".
        what: it should end in: "launch".
        advice: for a cell that ends in something else.

    Raises:
        OptionError: the cell does not end in an expression.
        SyntaxError: it is not Python.
    """
    try:
        statements = ast.parse(body).body
    except SyntaxError:
        ipython_api.execute(
            running, body
        )  # raises it as any cell does; IPython's own syntax may be all it is
        statements = []
    if not statements or not isinstance(statements[-1], ast.Expr):
        raise OptionError(
            f"{magic}: the cell must end in a {what}",
            advice=advice,
            position=running.position(magic),
        )
    last = statements[-1]
    lines = body.splitlines(keepends=True)
    above = "".join(lines[: last.lineno - 1])
    if above.strip():
        ipython_api.execute(running, above)
    return ast.get_source_segment(body, last) or ""


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


def _arguments(call: ast.Call, names: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional arguments of a call, and its keywords."""
    collected = ast.Call(ast.Name(_COLLECT, ast.Load()), call.args, call.keywords)
    collect = {_COLLECT: lambda *args, **keywords: (args, keywords)}
    args, keywords = _value(collected, {**names, **collect})
    return args, keywords


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    expression = ast.fix_missing_locations(ast.Expression(node))
    return eval(compile(expression, "<magic>", "eval"), dict(names))


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
