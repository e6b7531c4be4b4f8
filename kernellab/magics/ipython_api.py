"""IPython's private API: running a cell, its file name, its tracebacks."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import linecache
import os
import pdb  # noqa: T100 - no one debugs this file
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from traceback import walk_tb
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from kernellab import errors
from kernellab.common.text import remember_source
from kernellab.errors import KernelLabError, SourcePosition, file_in_traceback, raise_at

if TYPE_CHECKING:
    from kernellab.magics.magic import Magic

Shell = InteractiveShell


@dataclass(frozen=True)
class RunningCell:
    """The cell that the shell is running, seen from inside a cell magic."""

    shell: InteractiveShell
    file: str
    """The file name that its code objects and its tracebacks carry."""
    text: str
    """The whole cell as the user sees it, the magic's own line included."""
    header_line: int
    """The line of `text` that holds the magic, from 1; the body starts on the next."""
    result: Any
    """IPython's ExecutionResult, or None if no cell runs (a script called the magic)."""

    def position(self, word: str = "") -> SourcePosition:
        """The magic's own line; with a column if `word` is on it."""
        header = self.text.splitlines()[self.header_line - 1]
        return SourcePosition(self.file, self.header_line, _column(header, word))


def running_cell(shell: InteractiveShell, header: str, body: str) -> RunningCell:
    """The cell in which a cell magic was called with the line `header` and the text `body`;
    its source is made known to `linecache`.

    `header` is needed only where no cell runs: a script called `run_cell_magic`.
    """
    result = getattr(shell.displayhook, "exec_result", None)
    text = result.info.raw_cell if result is not None else ""
    ending = body.rstrip("\n")
    if not text.rstrip("\n").endswith(ending):
        text, result = f"{header}\n{body}", None
    above = text.rstrip("\n").removesuffix(ending)
    frame = _frame_of_running_cell(shell)
    file = None if frame is None else frame.f_code.co_filename
    if file is None:
        file = shell.compile.cache(text, shell.execution_count)
    # IPython registered what it made of the cell, one line that calls the magic; triton.jit reads
    # the source while the cell runs. With an mtime of None `linecache` never drops the entry.
    remember_source(file, text)
    return RunningCell(shell, file, text, max(above.count("\n"), 1), result)


def _frame_of_running_cell(shell: InteractiveShell) -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame and shell.compile.format_code_name(frame.f_code.co_filename) is None:
        frame = frame.f_back
    return frame


def running_line(shell: InteractiveShell, text: str) -> Callable[[str], SourcePosition]:
    """The positions of words on a cell's line; `text` is the line outside of cells."""
    frame = _frame_of_running_cell(shell)
    if frame is None:
        file, number = shell.compile.cache(text, shell.execution_count), 1
    else:
        file, number = frame.f_code.co_filename, frame.f_lineno

    def position(word: str) -> SourcePosition:
        return SourcePosition(file, number, _column(linecache.getline(file, number), word))

    return position


def _column(line: str, word: str) -> int:
    """The column, from 1, of `word` on a line, by itself or in another; 0 for none."""
    if not word:
        return 0
    alone = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", line)
    return (alone.start() if alone else line.find(word)) + 1


def debugger_class(shell: InteractiveShell) -> type[pdb.Pdb]:
    """The debugger that `%debug` takes in this shell."""
    base: type[pdb.Pdb] = shell.debugger_cls
    return base


def execute(
    cell: RunningCell, body: str, is_shown_otherwise: Callable[[Any], bool] = lambda _: False
) -> None:
    """Run the body of a cell as the shell runs an ordinary cell.

    Line N of the visible cell is line N of the code. IPython's own syntax (`!ls`, `%time`), its AST
    transformers and the display of the last expression work as usual. Top-level `await` does not: a
    magic is called in the middle of the event loop's step.

    Args:
        body: its text, without the magic's line.
        is_shown_otherwise: whether the magic itself shows the value of an expression.

    Raises:
        SyntaxError: of the body, with the visible cell's line.
        BaseException: whatever the code raises.
    """
    shell = cell.shell
    tree = shell.transform_ast(
        shell.compile.ast_parse(_transformed(cell, body), filename=cell.file)
    )
    quiet = shell.displayhook.semicolon_at_end_of_expression(body)
    display_value = sys.displayhook

    def display_others(value: Any) -> None:
        if not is_shown_otherwise(value):
            display_value(value)

    sys.displayhook = display_others
    try:
        for code in _code_objects(shell, tree, cell, quiet):
            exec(code, shell.user_global_ns, shell.user_ns)  # noqa: S102
    finally:
        sys.displayhook = display_value


def _transformed(cell: RunningCell, body: str) -> str:
    """The body as Python, below as many comment lines as there are lines above it in the cell."""
    first = next((line for line in body.splitlines() if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    shell: Any = cell.shell
    return str(shell.transform_cell(f"{indent}#\n" * cell.header_line + body))


def _code_objects(
    shell: Any, tree: ast.Module, cell: RunningCell, quiet: bool
) -> Iterator[CodeType]:
    interactivity = shell.ast_node_interactivity
    if quiet or (cell.result is not None and cell.result.info.silent):
        interactivity = "none"
    for statement in tree.body:
        last = statement is tree.body[-1]
        shown = interactivity == "all" or (last and interactivity == "last")
        if last and interactivity.startswith("last_expr"):
            shown = isinstance(statement, ast.Expr)
        try:
            if shown:
                yield shell.compile(ast.Interactive([statement]), cell.file, "single")
            else:
                yield shell.compile(ast.Module([statement], []), cell.file, "exec")
        except SyntaxError as error:
            if "outside" in (error.msg or "") and re.search("await|async", error.msg):
                error.msg += " (a magic's cell has no event loop: await in an ordinary cell)"
            raise


@contextlib.contextmanager
def cell_of_magic(
    shell: InteractiveShell, magic: str, line: str, body: str
) -> Iterator[RunningCell]:
    """The cell in which a cell magic was called; the with statement does all of the magic's work.

    An error inside it is shown as an error of an ordinary cell, and the cell fails: a magic that
    raises would also show the frames of IPython and of this package. If no cell runs, the error is
    raised.
    """
    cell = running_cell(shell, f"{magic} {line}".rstrip(), body)
    try:
        yield cell
    except BaseException as error:  # Ctrl-C too is an error of the cell
        if cell.result is None or isinstance(error, SystemExit):
            raise
        of_the_cell = isinstance(error, SyntaxError) and error.filename == cell.file
        error.__traceback__ = None if of_the_cell else visible_traceback(error)
        shell.showtraceback(
            (type(error), error, error.__traceback__),
            tb_offset=0,
            running_compiled_code=not of_the_cell,
        )
        if of_the_cell:
            cell.result.error_before_exec = error
        else:
            cell.result.error_in_exec = error


# Tracebacks

_PACKAGES = tuple(
    f"{os.path.dirname(file)}{os.sep}"
    for module in ("kernellab", "IPython", "ipykernel", "triton")
    if (spec := importlib.util.find_spec(module)) is not None and (file := spec.origin)
)
"""Folders whose frames say nothing to a user about an error that was raised on purpose."""

_INTERNAL = (*_PACKAGES, contextlib.__file__)


def visible_traceback(error: BaseException) -> TracebackType | None:
    """The part of an error's traceback that concerns the user.

    It starts in the cell, below the frames that ran it. An error that KernelLab raises on purpose,
    and an interrupt, also lose the frames of KernelLab and of Triton, and end on the line of the
    kernel where the error names one.
    """
    entries = list(walk_tb(error.__traceback__))
    for index, (frame, _) in enumerate(entries):
        if frame.f_code is execute.__code__:
            entries = entries[index + 1 :]
            break
    if isinstance(error, KernelLabError | KeyboardInterrupt):
        entries = [
            (frame, line)
            for frame, line in entries
            if not frame.f_code.co_filename.startswith(_INTERNAL)
        ]
    if isinstance(error, KernelLabError) and error.position is not None:
        place = (file_in_traceback(error.position), error.position.line)
        if not entries or (entries[-1][0].f_code.co_filename, entries[-1][1]) != place:
            entries.append((_frame_at(error.position), error.position.line))
    traceback = None
    for frame, line in reversed(entries):
        traceback = TracebackType(traceback, frame, frame.f_lasti, line)
    return traceback


def _frame_at(position: SourcePosition) -> FrameType:
    try:
        raise_at(Exception(), position)
    except Exception as error:  # raised only for its frame
        *_, (frame, _) = walk_tb(error.__traceback__)
        return frame


def _render_kernellab_error(error: KernelLabError) -> list[str]:
    """Show a KernelLabError without inner frames and Triton's earlier errors."""
    shell = InteractiveShell.instance()
    cause, context, position = error.__cause__, error.__context__, error.position
    traceback = visible_traceback(error)
    error.__cause__ = error.__context__ = None
    if position is not None and not position.column:
        error.position = None  # the traceback's last frame shows this line already
    try:
        return shell.InteractiveTB.structured_traceback(type(error), error, traceback, tb_offset=0)
    finally:
        error.__cause__, error.__context__, error.position = cause, context, position


def show_errors_briefly(shell: InteractiveShell) -> None:
    """Show KernelLab's errors on the user's lines alone, with "Cell In[3]" as the file."""
    KernelLabError._render_traceback_ = _render_kernellab_error  # type: ignore[attr-defined]

    def label(file: str) -> str | None:
        named = shell.compile.format_code_name(file)
        return None if named is None else " ".join(named)

    errors.label_files_by(label)


def show_errors_in_full() -> None:
    """Take back `show_errors_briefly`."""
    if hasattr(KernelLabError, "_render_traceback_"):
        del KernelLabError._render_traceback_
    errors.label_files_by(None)


def advise_below_errors(
    shell: InteractiveShell,
    advice_on: Callable[[BaseException], str],
    card_of: Callable[[Exception], Any],
) -> None:
    """Show below a cell's error what functions say of it: words, or an error's card."""

    def after_cell(result: Any) -> None:
        error = result.error_in_exec
        if isinstance(error, KernelLabError) and (card := card_of(error)) is not None:
            show(card)
        if isinstance(error, Exception) and (advice := advice_on(error)):
            print(f"KernelLab: {advice}")

    _listen(shell, "post_run_cell", after_cell)


# Cells


def tell_of_cells(shell: InteractiveShell, tell: Callable[[str], None]) -> None:
    """Call a function with each cell's text before it runs, the current one included."""
    _listen(shell, "pre_run_cell", lambda info: tell(info.raw_cell))
    running = getattr(shell.displayhook, "exec_result", None)
    tell("" if running is None else running.info.raw_cell)


_listeners: dict[tuple[InteractiveShell, str], Callable[[Any], None]] = {}


def _listen(shell: InteractiveShell, event: str, listener: Callable[[Any], None]) -> None:
    _forget_listener(shell, event)
    _listeners[shell, event] = listener
    shell.events.register(event, listener)


def _forget_listener(shell: InteractiveShell, event: str) -> None:
    if (listener := _listeners.pop((shell, event), None)) is not None:
        shell.events.unregister(event, listener)


def forget_listeners(shell: InteractiveShell) -> None:
    """Take back `advise_below_errors` and `tell_of_cells`."""
    for event in ("post_run_cell", "pre_run_cell"):
        _forget_listener(shell, event)


# Completion


def complete_options(shell: InteractiveShell, magic: Magic) -> None:
    """Let Tab on a magic's line offer its options and their values for the text up to the cursor.

    On the line of a cell magic ("%%") there is nothing else to offer;
    on that of a line magic ("%") there are the user's names too.
    """
    is_of_cell = magic.kind == "cell"

    def matcher(context: CompletionContext) -> dict[str, Any]:
        line = context.text_until_cursor
        above = context.full_text.split("\n")[: context.cursor_line]
        in_the_way = is_of_cell and any(text.strip() for text in above)
        if not line.startswith(f"{magic.magic} ") or in_the_way:
            return {"completions": [], "suppress": False}
        fragment = "" if line[-1].isspace() else line.split()[-1]
        names = magic.words(line)
        if not is_of_cell and not names:
            names = [name for name in shell.user_ns if fragment and name.startswith(fragment)]
        fragment = fragment.rpartition(",")[2].rpartition("=")[2]
        completions = [SimpleCompletion(word, type="option") for word in names]
        suppress = is_of_cell or bool(names)
        return {"completions": completions, "suppress": suppress, "matched_fragment": fragment}

    _forget_matcher(shell, magic)
    identified = context_matcher(identifier=_identifier(magic))(matcher)
    shell.Completer.custom_matchers.append(identified)


def _identifier(magic: Magic) -> str:
    return f"kernellab.{magic.magic}"


def _forget_matcher(shell: InteractiveShell, magic: Magic) -> None:
    matchers, own = shell.Completer.custom_matchers, _identifier(magic)
    matchers[:] = [m for m in matchers if getattr(m, "matcher_identifier", None) != own]


def show(value: Any) -> None:
    """Display a value below the cell, in whatever way the front end shows it best."""
    display(value)


def forget_magic(shell: InteractiveShell, magic: Magic) -> None:
    """Take a magic's registration and its completion back."""
    for magics in shell.magics_manager.magics.values():
        magics.pop(magic.name, None)
    _forget_matcher(shell, magic)
