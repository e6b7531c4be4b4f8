"""A magic: a function under a name, and the options of its line. What its line may contain besides:
names of the notebook, and a launch or a call, taken apart instead of carried out.
"""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, NoReturn, TypeGuard

from IPython.core.magic import no_var_expand

from kernellab.errors import KernelLabError, OptionError, SourcePosition, nearest
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell, Shell
from kernellab.records.launches import BoundLaunch

Position = Callable[[str], SourcePosition]
"""Returns the position of a word on the magic's line."""


_OPTION = re.compile(r"\s*(?P<flag>--[\w-]+)(?P<equals>=?)")
_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^\s"'])+""")
"""A word as the shell reads it, quotes included."""


def no_values() -> Iterable[str]:
    """An option whose values cannot be listed."""
    return ()


@dataclass(frozen=True)
class Option:
    """One option of a magic."""

    flag: str
    """ "--target"."""
    metavar: str
    """The value's name in the help; "" for an option that takes none."""
    help: str
    read: Callable[[str], Any] = str
    """Turns the value's text into the value; raises ValueError or KernelLabError with words
    for the user."""
    values: Callable[[], Iterable[str]] = no_values
    """The values that Tab offers."""
    repeated: bool = False
    """Whether the option may be given several times; its value is then a list."""

    @property
    def name(self) -> str:
        """The key of the parsed value: "num_warps" for "--num-warps"."""
        return self.flag.removeprefix("--").replace("-", "_")


class Options:
    """The options that one magic takes."""

    def __init__(self, magic: str, options: Iterable[Option], sigil: str = "%%") -> None:
        """`sigil` is "%" for a magic of one line."""
        self.name, self.sigil = magic, sigil
        self.magic = f"{sigil}{magic}"
        self.by_flag: Mapping[str, Option] = {option.flag: option for option in options}

    def parse(self, line: str, position: Position) -> dict[str, Any]:
        """The values by name: None for an option that was not given (False for one without a value,
        [] for a repeated one).

        Raises:
            OptionError: an unknown option, a missing or unreadable value, a stray word;
                points at the word.
            KernelLabError: what an option's `read` raises, pointed at the word.
        """
        given: dict[str, Any] = {
            option.name: [] if option.repeated else None if option.metavar else False
            for option in self.by_flag.values()
        }
        words = self._words(line, position)
        while words:
            self._take(words, given, position)
        return given

    def parse_leading(self, line: str, position: Position) -> tuple[dict[str, Any], str]:
        """As `parse`, for a line that goes on after its options; and what it goes on with.

        Raises:
            OptionError, KernelLabError: as `parse`.
        """
        rest = line.lstrip()
        taken = 0
        while (match := _OPTION.match(rest, taken)) is not None:
            option = self.by_flag.get(match["flag"])
            takes_value = option is not None and option.metavar and not match["equals"]
            value = _VALUE.match(rest, match.end()) if takes_value or match["equals"] else None
            taken = match.end() if value is None else value.end()
        return self.parse(rest[:taken], position), rest[taken:].strip()

    def _words(self, line: str, position: Position) -> list[str]:
        try:
            return shlex.split(line)
        except ValueError as error:
            raise OptionError(
                f"the options of {self.magic} cannot be read: {error}", position=position("")
            ) from None

    def _take(self, words: list[str], given: dict[str, Any], position: Position) -> None:
        """Take one option, and its value, from the front of `words`."""
        word = words.pop(0)
        flag, equals, text = word.partition("=")
        option = self.by_flag.get(flag)
        if option is None:
            self._refuse(flag if word.startswith("-") else word, position)
        if not option.metavar:
            if equals:
                raise OptionError(f"{flag} takes no value", position=position(word))
            given[option.name] = True
            return
        if not equals:
            if not words or words[0] in self.by_flag:
                raise OptionError(
                    f"{flag} needs a value: {flag} {option.metavar}", position=position(word)
                )
            text = words.pop(0)
        value = self._read(option, text, position)
        if option.repeated:
            given[option.name].append(value)
        else:
            given[option.name] = value

    def _refuse(self, word: str, position: Position) -> NoReturn:
        what = "option" if word.startswith("-") else "word"
        close = nearest(word if what == "option" else f"--{word}", self.by_flag)
        if "--constexpr" in self.by_flag and re.match(r"[^\W\d]\w*=", word):
            close = "Several constants go with commas between them: --constexpr BM=64,BN=32."
        known = f"{self.magic} knows {', '.join(self.by_flag)}; {self.magic}? explains them."
        raise OptionError(
            f"unknown {what} {word!r} on the line of {self.magic}",
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
            raise OptionError(f"{option.flag} {text}: {error}", position=position(text)) from None

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

    def help(self) -> str:
        """The options as a list for a docstring."""
        lines = []
        for option in self.by_flag.values():
            lines.append(f"  {option.flag} {option.metavar}".rstrip())
            lines += textwrap.wrap(
                option.help, 88, initial_indent=" " * 6, subsequent_indent=" " * 6
            )
        return "\n".join(lines)


def stated(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return those of the named options that a line gives."""
    return {name: given[name] for name in names if given[name] is not None}


OfLine = Callable[[Shell, str], Any]
"""Takes the shell and the rest of the line; what it returns is the value of the line."""

OfCell = Callable[[RunningCell, str, str], None]
"""Takes the cell, the rest of the magic's line, and the cell below that line."""


@dataclass(frozen=True)
class Magic:
    """What IPython registers.

    Attributes:
        kind: of a line, or of a cell.
        options: those of its line, with its name.
        help: what `?` shows.
        function: an `OfLine` or an `OfCell`.
    """

    kind: Literal["line", "cell"]
    options: Options
    help: str
    function: Callable[..., Any]

    def register(self, shell: Shell) -> None:
        """Make the magic known to a shell, with the completion of its line."""

        @no_var_expand
        def of_line(line: str) -> Any:
            return self.function(shell, line)

        def of_cell(line: str, cell: str) -> None:
            with ipython_api.cell_of_magic(shell, self.options.magic, line, cell) as running:
                self.function(running, line, cell)

        called: Callable[..., Any] = of_line if self.kind == "line" else of_cell
        called.__doc__ = self.help
        shell.magics_manager.register_function(called, self.kind, self.options.name)
        ipython_api.complete_options(shell, self.options)


def line_magic(options: Options, help: str) -> Callable[[OfLine], Magic]:
    """Make a function a magic of one line."""
    return lambda function: Magic("line", options, help, function)


def cell_magic(options: Options, help: str) -> Callable[[OfCell], Magic]:
    """Make a function a magic of a cell; an error in it is the cell's."""
    return lambda function: Magic("cell", options, help, function)


# What the line of a magic names in the notebook: variables, and the error for a name that
# nothing has.


def read_variable(text: str) -> str:
    """ "found" as it is: a variable's name. Raises ValueError for anything else."""
    if not text.isidentifier():
        raise ValueError("a variable's name is needed")
    return text


def read_variables(text: str) -> list[str]:
    """ "report,costs" as ["report", "costs"]. Raises ValueError if a part is not
    the name of a variable.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(name.isidentifier() for name in names):
        raise ValueError("write names of variables, with commas between them")
    return names


def value_of(
    name: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition, option: str = ""
) -> Any:
    """The value of a variable of the notebook's.

    Raises:
        OptionError: nothing has the name; points at `position`, and says for which
            option it was wanted.
    """
    if name not in namespace:
        raise unknown_name(name, namespace, magic, position, option)
    return namespace[name]


def read_path(text: str) -> str:
    """ "torch.nn.functional.silu" as it is. Raises ValueError for anything else."""
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError("a variable's name is needed, or a function's as in torch.add")
    return text


def value_at(
    path: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition, option: str = ""
) -> Any:
    """What a variable of the notebook's holds, or an attribute of that: "torch.add".

    Raises:
        OptionError: as for `value_of`, for an attribute that is not there too.
    """
    first, *attributes = path.split(".")
    value = value_of(first, namespace, magic, position, option)
    for name in attributes:
        if not hasattr(value, name):
            raise unknown_name(path, dict.fromkeys(_paths(path, value)), magic, position, option)
        value = getattr(value, name)
    return value


def expected(
    given: Mapping[str, Any],
    shell: Shell,
    magic: str,
    position: Callable[[str], SourcePosition],
) -> dict[str, Any]:
    """The argument `expect` of a check or a trace, where the line has --expect; else nothing."""
    path = given["expect"]
    if path is None:
        return {}
    return {"expect": value_at(path, shell.user_ns, magic, position(path), "--expect")}


def _paths(path: str, value: Any) -> list[str]:
    start = path.rpartition(".")[0]
    return [f"{start}.{name}" for name in dir(value)]


def unknown_name(
    name: str,
    namespace: Mapping[str, Any],
    magic: str,
    position: SourcePosition,
    option: str = "",
    there: str = "",
) -> OptionError:
    """The error for a name on a magic's line ("%tileir", "%%tiletune")
    that nothing in the notebook has; `there` says in a sentence what it has.
    """
    close = nearest(name, (candidate for candidate in namespace if not candidate.startswith("_")))
    advice = f"{close} {there}".strip() or f"Run the cell that defines {name} first."
    return OptionError(
        f"{' '.join(filter(None, (magic, option)))}: the notebook has no variable {name!r}",
        advice=advice,
        position=position,
    )


# The launch, or the call, that a magic is for: on its line, `add[grid](x, y, n, BLOCK=1024)`, or
# the last expression of its cell; taken apart instead of carried out.

_COLLECT = "__kernellab_collect__"


def options_before(
    shell: Shell, options: Options, line: str
) -> tuple[dict[str, Any], str, Position]:
    """Return the options that a line begins with, its rest, and the positions of its words."""
    position = ipython_api.running_line(shell, f"{options.magic} {line}".rstrip())
    return *options.parse_leading(line, position), position


def launch_on_line(
    shell: Shell, options: Options, line: str
) -> tuple[BoundLaunch, dict[str, Any], Position]:
    """Return the launch of a line, the options before it, and the positions of its words."""
    given, rest, position = options_before(shell, options, line)
    return read_launch(rest, shell.user_ns, options.magic, position("")), given, position


def read_launch(
    text: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition
) -> BoundLaunch:
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
    return BoundLaunch(kernel, grid, *_arguments(tree, namespace))


def read_expression(
    text: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the function and the arguments whose call is an expression, without the call.

    Of a call of given values, `model(x)`, these are its own. Anything else, as `model(x).sum()` or
    `model(x * 2)`, is a function of the notebook's data in it.

    Args:
        text: the expression.
        namespace: the user's.
        magic: as the user writes it.
        position: of the expression's first line.

    Raises:
        OptionError: nothing is computed, or the expression names something that the notebook does
            not have.
        Exception: whatever evaluating a part raises.
    """
    tree = ast.parse(text.strip(), mode="eval").body
    if isinstance(tree, ast.Name | ast.Constant):
        raise OptionError(
            f"{magic}: {text.strip()!r} is not a call",
            advice="The cell's last line is the call to open, as in model(x).",
            position=position,
        )
    _refuse_unknown_names(tree, namespace, magic, position)
    given = [*tree.args, *(keyword.value for keyword in tree.keywords)] if _is_call(tree) else []
    if _is_call(tree) and not any(_computes(argument, namespace) for argument in given):
        function = _value(tree.func, namespace)
        if not _is_tensor(getattr(function, "__self__", None)):
            return function, *_arguments(tree, namespace)
    return _function_of(tree, text.strip(), namespace, position)


def _is_call(tree: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression is one call, of a function that has a name."""
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
    """An expression as a function of the data that it names, and that data. Its code is on the
    expression's lines in the cell.
    """
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
