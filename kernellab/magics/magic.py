"""A magic: a function, whose keyword-only parameters are the options of its line, and whose
docstring is its help. What its line may contain besides: names of the notebook, and a launch or a
call, taken apart instead of carried out.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, NoReturn, TypeGuard

from IPython.core.magic import no_var_expand

from kernellab.common.arguments import Option, options_of
from kernellab.errors import KernelLabError, OptionError, SourcePosition, nearest
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell, Shell
from kernellab.records.launches import BoundLaunch

Position = Callable[[str], SourcePosition]
"""Returns the position of a word on the magic's line."""

_OPTION = re.compile(r"\s*(?P<flag>--[\w-]+)(?P<equals>=?)")
_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^\s"'])+""")
"""A word as the shell reads it, quotes included."""


@dataclass(frozen=True)
class Line:
    """The line of a magic that runs.

    Attributes:
        magic: the magic as the user writes it, "%tileir".
        shell: where it runs.
    """

    magic: str
    text: str
    shell: Shell
    position: Position
    place: SourcePosition

    @property
    def namespace(self) -> dict[str, Any]:
        """The variables of the notebook."""
        names: dict[str, Any] = self.shell.user_ns
        return names

    def unknown(self, name: str, there: str = "") -> OptionError:
        """Return the error for an unknown name; `there` says what exists."""
        return _unknown(name, self.namespace, self.magic, self.place, there)

    def value(self, path: str | None, option: str) -> Any:
        """Return what a variable of the notebook holds, or an attribute of that: "torch.add"; None
        for an option that is not given. Raises OptionError: nothing has the name; points at it, and
        says for which option it was wanted.
        """
        if path is None:
            return None
        magic, place = f"{self.magic} {option}", self.position(path)
        first, *attributes = path.split(".")
        if first not in self.namespace:
            raise _unknown(first, self.namespace, magic, place)
        value = self.namespace[first]
        for name in attributes:
            if not hasattr(value, name):
                known = [f"{path.rpartition('.')[0]}.{known}" for known in dir(value)]
                raise _unknown(path, known, magic, place)
            value = getattr(value, name)
        return value


@dataclass(frozen=True)
class Cell(Line):
    """The line of a magic that runs, and the cell below it.

    Attributes:
        body: the cell without the magic's line.
    """

    running: RunningCell
    body: str


@dataclass(frozen=True)
class Magic:
    """A magic, as IPython registers it.

    Attributes:
        name: without "%".
        help: what `?` shows.
        has: where the line has text besides options: after them, around them, or nowhere.
        function: it gets a `Line` or a `Cell`, and the values of the options.
    """

    kind: Literal["line", "cell"]
    name: str
    help: str
    by_flag: Mapping[str, Option]
    has: Literal["after", "around", "nothing"]
    function: Callable[..., Any]

    @property
    def magic(self) -> str:
        """The magic as the user writes it: "%tileir", "%%tiletune"."""
        return f"{'%' if self.kind == 'line' else '%%'}{self.name}"

    def register(self, shell: Shell) -> None:
        """Make the magic known to a shell, with the completion of its line."""

        @no_var_expand
        def of_line(text: str) -> Any:
            position = ipython_api.running_line(shell, f"{self.magic} {text}".rstrip())
            given, rest = self.read(text, position)
            return self.function(Line(self.magic, rest, shell, position, position("")), **given)

        def of_cell(text: str, body: str) -> None:
            with ipython_api.cell_of_magic(shell, self.magic, text, body) as running:
                given, rest = self.read(text, running.position)
                place = running.position(self.magic)
                cell = Cell(self.magic, rest, shell, running.position, place, running, body)
                self.function(cell, **given)

        called: Callable[..., Any] = of_line if self.kind == "line" else of_cell
        called.__doc__ = self.help
        shell.magics_manager.register_function(called, self.kind, self.name)
        ipython_api.complete_options(shell, self)

    def read(self, text: str, position: Position) -> tuple[dict[str, Any], str]:
        """Return the values of the options on a line, by name, and what else it has. Raises
        OptionError: an unknown option, a bad value, a stray word; points at the word;
        KernelLabError: what an option's `read` raises, pointed at the word.
        """
        if self.has == "nothing":
            return self._values(text, position), ""
        text = text.strip()
        taken = 0
        while (match := _OPTION.match(text, taken)) is not None:
            option = self.by_flag.get(match["flag"])
            takes_value = option is not None and option.metavar and not match["equals"]
            value = _VALUE.match(text, match.end()) if takes_value or match["equals"] else None
            taken = match.end() if value is None else value.end()
        options, rest = text[:taken], text[taken:].strip()
        if self.has == "around":
            rest, dashes, after = rest.partition(" --")
            options += f" {dashes.strip()}{after}"
        return self._values(options, position), rest.strip()

    def _values(self, text: str, position: Position) -> dict[str, Any]:
        given: dict[str, Any] = {option.name: option.default for option in self.by_flag.values()}
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise OptionError(
                f"The options of {self.magic} cannot be read: {error}", position=position("")
            ) from None
        while words:
            self._take(words, given, position)
        return given

    def _take(self, words: list[str], given: dict[str, Any], position: Position) -> None:
        """Take one option, and its value, from the front of `words`."""
        word = words.pop(0)
        flag, equals, text = word.partition("=")
        option = self.by_flag.get(flag)
        if option is None:
            self._refuse(flag if word.startswith("-") else word, position)
        if not option.metavar:
            if equals:
                raise OptionError(f"{flag} takes no value.", position=position(word))
            given[option.name] = True
            return
        if not equals:
            if not words or words[0] in self.by_flag:
                raise OptionError(
                    f"{flag} needs a value: {flag} {option.metavar}.", position=position(word)
                )
            text = words.pop(0)
        value = self._read(option, text, position)
        given[option.name] = [*given[option.name], value] if option.repeated else value

    def _refuse(self, word: str, position: Position) -> NoReturn:
        what = "option" if word.startswith("-") else "word"
        close = nearest(word if what == "option" else f"--{word}", self.by_flag)
        if "--constexpr" in self.by_flag and re.match(r"[^\W\d]\w*=", word):
            close = "Separate several constants by commas: --constexpr BM=64,BN=32."
        flags = ", ".join(self.by_flag)
        known = f"{self.magic} has the options {flags}. {self.magic}? explains them."
        raise OptionError(
            f"Unknown {what} {word!r} on the line of {self.magic}.",
            advice=f"{close}\n{known}" if close else known,
            position=position(word),
        )

    def _read(self, option: Option, text: str, position: Position) -> Any:
        try:
            return option.read(text)
        except KernelLabError as error:
            error.position = error.position or position(text)
            raise
        except ValueError as error:
            raise OptionError(
                f"{option.flag} {error}, got {text!r}.", position=position(text)
            ) from None

    def words(self, line: str) -> list[str]:
        """Return completions of the magic's line, whose last word is incomplete."""
        words = line.split()[1:]
        fragment = "" if line[-1:].isspace() or not words else words.pop()
        flag, equals, beginning = fragment.partition("=")
        if not equals:
            flag, beginning = (words[-1] if words else ""), fragment
        option = self.by_flag.get(flag)
        if option is not None and option.metavar:
            beginning = beginning.rpartition(",")[2]
            return [value for value in option.values() if value.startswith(beginning)]
        free = [o for o in self.by_flag.values() if o.repeated or o.flag not in words]
        return [o.flag for o in free if o.flag.startswith(fragment)]


def magic(
    kind: Literal["line", "cell"],
    *,
    has: Literal["after", "around", "nothing"] = "after",
    also: Callable[..., Any] | None = None,
    beside: Magic | None = None,
) -> Callable[[Callable[..., Any]], Magic]:
    """Make a function a magic of a line or of a cell, whose name is the function's.

    Args:
        has: see `Magic`.
        beside: the magic of the same name of the other kind, whose help has the options of both.
    """

    def declare(function: Callable[..., Any]) -> Magic:
        help = (inspect.getdoc(function) or "") if beside is None else beside.help
        name = function.__name__ if beside is None else beside.name
        options = list(options_of(function, help))
        if also is not None:
            more = inspect.getdoc(also) or ""
            options += options_of(also, more)
            listed = more[more.index("\n  --") :]
            help = help.replace("\n\nExamples:", f"{listed}\n\nExamples:")
        by_flag = {option.flag: option for option in options}
        return Magic(kind, name, help, by_flag, has, function)

    return declare


def stated(**given: Any) -> dict[str, Any]:
    """Return those of the options that a line gives."""
    return {name: value for name, value in given.items() if value is not None}


# What the line of a magic names in the notebook: variables, and the error for a name that
# nothing has.


def read_variable(text: str) -> str:
    """ "found" as it is: a variable's name. Raises ValueError for anything else."""
    if not text.isidentifier():
        raise ValueError("must be the name of a variable")
    return text


def read_variables(text: str) -> list[str]:
    """ "report,costs" as ["report", "costs"]; raises ValueError for what cannot be a name."""
    names = [name.strip() for name in text.split(",")]
    if not all(name.isidentifier() for name in names):
        raise ValueError("must be names of variables, separated by commas")
    return names


def read_path(text: str) -> str:
    """ "torch.nn.functional.silu" as it is. Raises ValueError for anything else."""
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError("must be the name of a variable or a function, such as torch.add")
    return text


def _unknown(
    name: str, names: Iterable[str], magic: str, place: SourcePosition, there: str = ""
) -> OptionError:
    close = nearest(name, (each for each in names if not each.startswith("_")))
    return OptionError(
        f"{magic}: the notebook has no variable {name!r}.",
        advice=f"{close} {there}".strip() or f"Run the cell that defines {name} first.",
        position=place,
    )


# The launch, or the call, that a magic is for: on its line, `add[grid](x, y, n, BLOCK=1024)`, or
# the last expression of its cell; taken apart instead of carried out.

_COLLECT = "__kernellab_collect__"


def read_launch(line: Line, text: str | None = None) -> BoundLaunch:
    """Evaluate the parts of a launch: that on the line, or `text`. Raises OptionError: not a
    launch, or an unknown name; points at the magic's line; Exception: whatever evaluating a part
    raises.
    """
    text = line.text if text is None else text.strip()
    if not text:
        _refuse("no launch is given", line)
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        _refuse(f"{text!r} cannot be read: {error.msg}", line)
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Subscript)):
        _refuse(f"{text!r} is not a launch", line)
    _refuse_unknown_names(tree, line)
    kernel, grid = (_value(node, line.namespace) for node in (tree.func.value, tree.func.slice))
    return BoundLaunch(kernel, grid, *_arguments(tree, line.namespace))


def read_expression(text: str, line: Line) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the function and the arguments whose call is an expression, without the call.

    Of a call of given values, `model(x)`, these are its own. Anything else, as `model(x).sum()` or
    `model(x * 2)`, is a function of the notebook's data in it.

    Args:
        line: the magic's; its place is that of the expression's first line.

    Raises:
        OptionError: nothing is computed, or the expression has an unknown name.
        Exception: whatever evaluating a part raises.
    """
    namespace = line.namespace
    tree = ast.parse(text.strip(), mode="eval").body
    if isinstance(tree, ast.Name | ast.Constant):
        raise OptionError(
            f"{line.magic}: {text.strip()!r} is not a call.",
            advice="Write the call to open as the cell's last line, such as model(x).",
            position=line.place,
        )
    _refuse_unknown_names(tree, line)
    given = [*tree.args, *(keyword.value for keyword in tree.keywords)] if _is_call(tree) else []
    if _is_call(tree) and not any(_computes(argument, namespace) for argument in given):
        function = _value(tree.func, namespace)
        if not _is_tensor(getattr(function, "__self__", None)):
            return function, *_arguments(tree, namespace)
    return _function_of(tree, text.strip(), namespace, line.place)


def _is_call(tree: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(tree, ast.Call) and not any(
        isinstance(node, ast.Call) for node in ast.walk(tree.func)
    )


def _computes(argument: ast.expr, namespace: Mapping[str, Any]) -> bool:
    """Whether an argument is more than a given value: it computes with tensors or modules."""
    if isinstance(argument, ast.Starred):
        argument = argument.value
    return not isinstance(argument, ast.Name | ast.Attribute) and any(
        isinstance(node, ast.Name) and _is_torchs(namespace.get(node.id))
        for node in ast.walk(argument)
    )


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_torchs(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor | torch.nn.Module)


def _function_of(
    tree: ast.expr, text: str, namespace: Mapping[str, Any], position: SourcePosition
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """An expression as a function of its data, and those; its code has the cell's lines."""
    named = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    data = [
        name
        for name in dict.fromkeys(named)
        if name in namespace
        and name not in own
        and not (callable(namespace[name]) or isinstance(namespace[name], ModuleType))
    ]
    parameters = ast.parse(f"lambda {', '.join(data)}: None", mode="eval").body
    assert isinstance(parameters, ast.Lambda)
    parameters.body = tree
    ast.increment_lineno(parameters, position.line - 1)
    expression = ast.fix_missing_locations(ast.Expression(parameters))
    function = eval(compile(expression, position.file, "eval"), dict(namespace))
    function.__name__ = function.__qualname__ = " ".join(text.split())
    return function, tuple(namespace[name] for name in data), {}


def run_above_last(cell: Cell, what: str, advice: str) -> str:
    """Run a cell above its last expression, and return that expression.

    Args:
        what: it should end in: "launch".

    Raises:
        OptionError: the cell does not end in an expression.
        SyntaxError: it is not Python.
    """
    try:
        statements = ast.parse(cell.body).body
    except SyntaxError:
        # raises it as any cell does; IPython's own syntax may be all it is
        ipython_api.execute(cell.running, cell.body)
        statements = []
    if not statements or not isinstance(statements[-1], ast.Expr):
        raise OptionError(
            f"{cell.magic}: the cell must end in a {what}", advice=advice, position=cell.place
        )
    last = statements[-1]
    lines = cell.body.splitlines(keepends=True)
    above = "".join(lines[: last.lineno - 1])
    if above.strip():
        ipython_api.execute(cell.running, above)
    return ast.get_source_segment(cell.body, last) or ""


def _refuse_unknown_names(tree: ast.expr, line: Line) -> None:
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in named if not isinstance(node.ctx, ast.Load)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in named:
        name = node.id
        if name in own or name in line.namespace or hasattr(builtins, name):
            continue
        raise line.unknown(name)


def _arguments(call: ast.Call, names: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    collected = ast.Call(ast.Name(_COLLECT, ast.Load()), call.args, call.keywords)
    collect = {_COLLECT: lambda *args, **keywords: (args, keywords)}
    args, keywords = _value(collected, {**names, **collect})
    return args, keywords


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    expression = ast.fix_missing_locations(ast.Expression(node))
    return eval(compile(expression, "<magic>", "eval"), dict(names))


def _refuse(problem: str, line: Line) -> NoReturn:
    example = "add[grid](x, y, n)"
    if not isinstance(line, Cell):
        example = f"{line.magic} add[grid](x, y, n, BLOCK=1024)"
    raise OptionError(
        f"{line.magic}: {problem}",
        advice=f"Write the launch as you would run it: {example}.",
        position=line.place,
    )
