"""The compiler's errors on the user's lines, and what is this machine's fault."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import io
import os
import re
import signal
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.compiler.errors import CompilationError
from triton.runtime.errors import PTXASError

from kernellab.common.processes import hold_while_forking
from kernellab.common.system import (
    DISK_ADVICE,
    LIMITS_ADVICE,
    MEMORY_ADVICE,
    flush_errors,
    hold_standard_descriptors,
    interrupted_afterwards,
    nameless_file,
    print_as_far_as_possible,
    system_fault,
)
from kernellab.common.text import string_of_assembly, string_of_ir
from kernellab.errors import CompileError, KernelLabError, MachineError, SourcePosition
from kernellab.records import Target
from kernellab.triton_api.fixes import Fix, Refusal, fix_of, foreign_call
from kernellab.triton_api.fixes.rules import (
    Attempt,
    first_that_helps,
    tried_change,
    variables_at,
    variables_inside,
)
from kernellab.triton_api.functions import (
    definition_of,
    indentation,
    is_in_library,
    position_in,
    reachable_functions,
)
from kernellab.triton_api.kernel_contents import is_variant
from kernellab.triton_api.targets import COLUMNS_OF_THE_FILE, column_from_one


def machine_error(error: Exception, lead: str, printed: str = "") -> MachineError | None:
    """What an error says about this machine; None if it is the kernel's, or the compiler's.

    Args:
        lead: what cannot be done: "The compiler cannot run".
        printed: what the compiler printed meanwhile.
    """
    cause: BaseException | None = error
    while isinstance(cause, CompilationError) and cause.__cause__ is not None:
        cause = cause.__cause__
    fault = system_fault(cause if isinstance(cause, MemoryError) else error, lead)
    if fault is not None:
        fault.advice = _advice_on_program(error) or fault.advice
        return fault
    words = f"{cause}"
    if missing := re.search(r"Cannot find (\S+)$", words):
        tool = missing[1]
        return MachineError(
            f"{lead}: {tool} is missing or cannot run on this machine.",
            advice="Reinstall Triton, which includes it, or set "
            f"TRITON_{tool.upper().replace('-', '_')}_PATH to the path of another.",
        )
    if isinstance(error, PTXASError) and (ended := _ENDED.search(words)):
        advice = DISK_ADVICE if int(ended[1]) == _NO_ROOM else MEMORY_ADVICE
        return MachineError(f"{lead}: ptxas {ended[0]}.", advice=advice)
    if isinstance(error, PTXASError) and (failed := _FAILED.search(words)):
        if not _PTXAS_WORDS.search(words):
            return MachineError(
                f"{lead}: the ptxas program {failed[0].strip()}",
                advice=f"It reports nothing about the PTX. {OWN_ASSEMBLER}",
            )
    for sign, advice in _SIGNS:
        if match := sign.search(words) or sign.search(printed):
            return MachineError(f"{lead}: {match[0].strip()}.", advice=advice)
    return None


def is_machines_fault(error: BaseException) -> bool:
    """Whether an error, or one that caused it, says nothing of a kernel: a full disk, a folder that
    cannot be written, a tool that is not there or was ended, memory that others hold.
    """
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, MachineError | OSError | MemoryError | ImportError):
            return True
        if isinstance(current, Exception) and machine_error(current, "") is not None:
            return True
        current = current.__cause__
    return False


@contextmanager
def translated_machine_errors(lead: str) -> Iterator[None]:
    """Turn errors that are this machine's fault into a MachineError; all others propagate."""
    try:
        yield
    except (OSError, RuntimeError, MemoryError) as error:
        if isinstance(error, NotImplementedError | RecursionError):
            raise
        fault = machine_error(error, lead)
        if fault is None:
            raise
        raise fault from error


_ENDED = re.compile(r"failed with error code (-\d+|12[67])\b")
"""Triton's words for an assembler that a signal ended, or that could not be started."""
_NO_ROOM = -signal.SIGXFSZ
"""How it ends if a file would outgrow the limit of the process."""
_FAILED = re.compile(r"failed with error code \d+(?:\n[^\n]+){0,4}")
OWN_ASSEMBLER = (
    "If TRITON_PTXAS_PATH or TRITON_PTXAS_BLACKWELL_PATH is set, unset it: Triton then uses the "
    "ptxas that it was installed with."
)
"""Triton chooses between the two programs by the target: the second one is for sm_100 and later,
and from Triton 3.9 on for sm_90 too."""

_PTXAS_WORDS = re.compile(r"^ptxas\b", re.M)
"""How each of ptxas's own messages begins."""
_SIGNS = (
    (
        re.compile(r"Could not create or locate cache dir"),
        "Set TRITON_CACHE_DIR to a folder, or unset it.",
    ),
    (re.compile(r"No space left on device", re.I), DISK_ADVICE),
    (re.compile(r"Disk quota exceeded", re.I), DISK_ADVICE),
    (re.compile(r"File too large", re.I), DISK_ADVICE),
    (re.compile(r"Too many open files", re.I), LIMITS_ADVICE),
    (re.compile(r"ptxas fatal\s*: (?:Could not|Cannot) (?:open|write)[^\n]*"), DISK_ADVICE),
    (
        re.compile(r"LLVM ERROR: out of memory|std::bad_alloc|Cannot allocate memory", re.I),
        MEMORY_ADVICE,
    ),
)
"""Words of the compiler's own."""


def _advice_on_program(error: Exception) -> str:
    """Advice about a program that the environment names and the system does not start."""
    named = getattr(error, "filename", None)
    for name, value in os.environ.items():
        if value and value == named and re.fullmatch(r"TRITON_\w+_PATH", name):
            return f"Set {name} to a program that runs here, or unset it."
    return ""


_CANNOT_RUN = "The compiler cannot run"

TTGIR_FILE_SUFFIX = ".kernellab.ttgir"
"""The suffix of the file that locations after TTGIR name, if they name lines of the TTGIR."""


@contextmanager
def translated_errors(
    kernel: Any,
    target: Target,
    running_pass: Callable[[], str | None] = lambda: None,
    attempt: Attempt | None = None,
) -> Iterator[_Output]:
    """Turn whatever the compiler raises inside the block into a CompileError
    on the kernel's own line.

    Args:
        kernel, target: what is compiled, and for what.
        running_pass: gives the label of the pass that is running, where someone watches.
        attempt: has the front end compile a variant of the kernel, to try a fix; without it, no fix
            is tried.
    """
    with captured_output() as output:
        try:
            yield output
        except KernelLabError:
            raise
        except CompilationError as error:
            output.take()
            if (fault := machine_error(error, _CANNOT_RUN)) is not None:
                raise fault from error
            raise _front_end_error(error, kernel, target, attempt) from error
        except PTXASError as error:
            printed = output.take()
            if (fault := machine_error(error, _CANNOT_RUN, printed)) is not None:
                raise fault from error
            raise _assembler_error(error, kernel, target, printed) from error
        except Exception as error:  # also of LLVM, and of constant functions of the user
            printed = output.take()
            refused = _python_function_error(error, kernel, target)
            refused = refused or _foreign_function_error(error, kernel, target, attempt)
            if refused is not None:
                raise refused from error
            if not all(
                _is_text(definition_of(function).file) for function in reachable_functions(kernel)
            ):
                raise _path_error(kernel, target) from error
            if (fault := machine_error(error, _CANNOT_RUN, printed)) is not None:
                raise fault from error
            raise _pass_error(error, kernel, target, printed, running_pass()) from error


def _front_end_error(
    error: Any, kernel: Any, target: Target, attempt: Attempt | None
) -> CompileError:
    """Translate a CompilationError at the innermost of its nested errors in the user's code."""
    functions = {str(function.src): function for function in reversed(reachable_functions(kernel))}
    library = str(Path(triton.__file__).parent)
    position, refusing, node = definition_of(kernel), kernel, None
    chain = list(_compilation_errors(error))
    for nested in chain:
        function = functions.get(nested.src or "")
        if function is not None and not definition_of(function).file.startswith(library):
            position, refusing, node = position_in(function, nested.node), function, nested.node
    words = next((e.error_message for e in reversed(chain) if e.error_message), "")
    words_shown = _without_quotes(words) or _cause_of(chain[-1])
    reason, advice = _in_plain_words(chain[-1], words_shown)
    scope, inner = variables_at(error, refusing), variables_inside(error)
    refusal = Refusal(words_shown, refusing, node, scope, inner)
    if (fix := fix_of(refusal)) is not None:
        reason, advice = refusal.explained_by(fix)
    refused = _refused(target, reason, position, kernel, advice=advice)
    return refused if fix is None else _with_tried(refused, refusal, fix, attempt, kernel)


def _with_tried(
    error: CompileError, refusal: Refusal, fix: Fix, attempt: Attempt | None, kernel: Any
) -> CompileError:
    """Return an error with the change of its fix if it helps, and without the fix if not."""
    if attempt is None or refusal.function is not kernel or is_variant(kernel):
        return error
    if fix.attempts:
        helping = first_that_helps(refusal, fix, attempt)
        if helping is not None:
            advice, error.changes = helping
            error.advice, error.verified = f"{error.advice} {advice}".strip(), True
        return error
    tried = tried_change(refusal, fix.advice, attempt)
    if tried:
        error.changes, error.verified = tried, True
    elif tried is not None:
        error.advice = error.advice.removesuffix(fix.advice).rstrip()
    return error


def _refused(
    target: Target,
    reason: str,
    position: SourcePosition | None,
    kernel: Any = None,
    *,
    lead: str = "",
    advice: str = "",
    failed_pass: str | None = None,
    pass_names: str = "",
) -> CompileError:
    """What the compiler refuses: "LEAD for sm_90: REASON, in the pass PASS_NAMES"."""
    lead = lead or f"Triton cannot compile {kernel.__name__!r}"
    where = f", in the pass {pass_names}" if pass_names else ""
    return CompileError(
        f"{lead} for {target}: {reason.removesuffix('.') if where else reason}{where}",
        advice=advice,
        position=position,
        failed_pass=failed_pass,
        kernel="" if kernel is None else kernel.__name__,
        target=str(target),
        reason=reason,
    )


def _in_plain_words(error: Any, words: str) -> tuple[str, str]:
    """The complaint of the front end, and the advice ("" if the complaint says it)."""
    if isinstance(error.node, str) and str(error.src).startswith("invalid "):
        # Triton gives words and a name in place of a source and its node.
        return str(error.src), _other_name(error.node)
    if words.endswith(" is not an ascii string"):
        return words, "What a kernel prints has ASCII texts only: write this one in ASCII."
    return words, ""


def _other_name(name: str) -> str:
    """Advice for a kernel whose name Triton refuses."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    example = f", {plain!r} for one" if plain.isidentifier() and plain.strip("_") else ""
    return (
        f"Triton takes ASCII letters, digits and _ in the name of a kernel: rename it{example}. "
        "Parameters, variables and functions that it calls may have any name."
    )


def _is_text(path: str) -> bool:
    """Whether a path can be written as UTF-8: the bytes of some are in no known encoding."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _path_error(kernel: Any, target: Target) -> CompileError:
    return _refused(
        target,
        "the path of its file is not UTF-8, and Triton has to write it down.",
        definition_of(kernel),
        kernel,
        advice="Rename the folder or the file whose name has bytes like \\udc..: it is in another "
        "encoding.",
    )


def _compilation_errors(error: Any) -> Iterator[Any]:
    current: BaseException | None = error
    while isinstance(current, CompilationError):
        yield current
        current = current.__cause__


def _without_quotes(words: str) -> str:
    """Write a cause that Triton gives by its repr, "NameError('x ...')", with a colon."""
    match = re.fullmatch(r"""(\w+)\((['"])(.*)\2\)""", words, re.S)
    return f"{match[1]}: {match[3]}" if match else words


def _cause_of(error: BaseException) -> str:
    """Words for a CompilationError that carries none: an `assert` without a message is one."""
    cause = error.__cause__
    if cause is None:
        return type(error).__name__
    return f"{type(cause).__name__} {cause}".strip()


def _python_function_error(error: Exception, kernel: Any, target: Target) -> CompileError | None:
    """The error about a plain Python function that a kernel calls; None for another error."""
    match = re.match(r"Unsupported function referenced: <function (\S+) at", str(error))
    if match is None:
        return None
    name, position = match[1].rpartition(".")[2], definition_of(kernel)
    for function in reachable_functions(kernel):
        for node in ast.walk(function.parse()):
            if name in (getattr(node, "id", None), getattr(node, "attr", None)):
                position = position_in(function, node)
    return _refused(
        target,
        f"{name!r} is a plain Python function.",
        position,
        kernel,
        advice=f"Put @triton.jit above {name!r}, or @triton.constexpr_function if it computes "
        "constants.",
    )


def _foreign_function_error(
    error: Exception, kernel: Any, target: Target, attempt: Attempt | None
) -> CompileError | None:
    """What Triton says about torch.relu and its like, before it looks at any line."""
    words = f"{type(error).__name__}: {error}"
    for function in reachable_functions(kernel):
        call = None if is_in_library(definition_of(function).file) else foreign_call(function)
        if call is None:
            continue
        refusal = Refusal(words, function, call.node)
        if fix := fix_of(refusal):
            position = position_in(function, call.node)
            reason, advice = refusal.explained_by(fix)
            refused = _refused(target, reason, position, kernel, advice=advice)
            return _with_tried(refused, refusal, fix, attempt, kernel)
    return None


_DIAGNOSTIC = re.compile(
    r'^(?:loc\("(?P<written>(?:[^"\\]|\\.)*)"|(?P<path>.+?))'
    r":(?P<line>\d+):(?P<column>\d+)\)?: error: (?P<words>.+)$",
    re.M,
)
"""MLIR's own form of an error: file:line:column, or as a location."""


def diagnostic_file(match: re.Match[str]) -> str:
    """The file of an MLIR diagnostic, by its group "written" (in a location) or "path"."""
    return match["path"] or string_of_ir(match["written"])


_ASSERTION = re.compile(
    r"^.+?: (?P<file>\S+):(?P<line>\d+): .*Assertion `(?P<words>.+)' failed\.$", re.M
)
_FATAL = re.compile(r"^LLVM ERROR: (?P<words>.+)$", re.M)
_FAILED_PASS = re.compile(r"Pipeline failed while executing \[.*?`(?P<name>\w+)` on")


def _pass_error(
    error: Exception, kernel: Any, target: Target, printed: str, running: str | None
) -> CompileError:
    """A pass failed: MLIR has printed its words, with the kernel's line, to stderr."""
    position = definition_of(kernel)
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    diagnostics = list(_DIAGNOSTIC.finditer(printed))
    diagnostic = next(
        (d for d in diagnostics if "Failures have been detected" not in d["words"]), None
    )
    if diagnostic is not None:
        words = diagnostic["words"]
        file = diagnostic_file(diagnostic)
        position = native_position(kernel, file, int(diagnostic["line"]), int(diagnostic["column"]))
    elif failed_assertion := _failed_assertion(printed):
        words = failed_assertion
    elif fatal := _FATAL.search(printed):
        words = fatal["words"]
    failed = _FAILED_PASS.search(printed)
    named = failed["name"] if failed else ""
    if running is not None:
        named = f"{running} ({named})" if named else running
    refusal, advice = Refusal(words, kernel, None), ""
    if fix := fix_of(refusal):
        words, advice = refusal.explained_by(fix)
    return _refused(
        target,
        words,
        position,
        kernel,
        advice=advice,
        failed_pass=running,
        pass_names=named,
    )


def _failed_assertion(printed: str) -> str:
    if (failed := _ASSERTION.search(printed)) is None:
        return ""
    where = f"{Path(failed['file']).name}:{failed['line']}"
    return f"an assertion inside the compiler failed, {failed['words']} ({where})"


_PTXAS_DIAGNOSTIC = re.compile(
    r"^ptxas(?:-\w+)?\s*(?:.+?, line (?P<line>\d+); )?\s*(?:error|fatal)\s*:\s*"
    r"(?P<words>.+?(?: on line (?P<stated_line>\d+))?)$",
    re.M,
)
_PTX_LOCATION = re.compile(r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+(?P<column>\d+)")


def _assembler_error(error: Any, kernel: Any, target: Target, printed: str) -> CompileError:
    """ptxas refused the PTX: its words, on the kernel's line that the PTX line came from."""
    words, numbers = _assembler_message(str(error))
    position, advice = definition_of(kernel), ""
    if numbers:
        start = max(printed.find("//\n// Generated by LLVM NVPTX Back-End"), 0)
        lines = printed[start:].splitlines()
        position = _ptx_position(kernel, lines, numbers[0])
        if numbers[0] <= len(lines):
            advice = f"Line {numbers[0]} of the PTX is: {lines[numbers[0] - 1].strip()}"
            advice += _quoted_path(lines[numbers[0] - 1])
    return _refused(
        target,
        words,
        position,
        kernel,
        lead=f"ptxas cannot assemble {kernel.__name__!r}",
        advice=advice,
        failed_pass="sass.ptxas",
    )


def _quoted_path(line: str) -> str:
    """Advice for a line of PTX that names a file whose path ptxas cannot read."""
    if not re.match(r"\s*\.file\b.*\\\"", line):
        return ""
    return (
        '\nptxas reads no path that has a " in it: rename the folder or the file, or set '
        "TRITON_DISABLE_LINE_INFO=1."
    )


def _assembler_message(printed: str) -> tuple[str, list[int]]:
    """The complaints of ptxas, and the lines of PTX that it names."""
    complaints = list(_PTXAS_DIAGNOSTIC.finditer(printed))
    words = "; ".join(dict.fromkeys(c["words"].strip() for c in complaints)) or printed
    return words, [int(line) for c in complaints if (line := c["line"] or c["stated_line"])]


def _ptx_position(kernel: Any, lines: Sequence[str], number: int) -> SourcePosition:
    """The kernel's line of a PTX line, by the last `.loc` before it."""
    named = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)+)"')
    files = {
        match[1]: string_of_assembly(match[2]) for line in lines if (match := named.match(line))
    }
    for line in reversed(lines[:number]):
        if location := _PTX_LOCATION.match(line):
            file = files.get(location["file"], "")
            return native_position(kernel, file, int(location["line"]), int(location["column"]))
    return definition_of(kernel)


def native_position(kernel: Any, file: str, line: int, column: int) -> SourcePosition:
    """The place that the compiler's own location names:
    the file and line as they are, the column that of the AST node.

    A location in no function of the kernel's (in Triton's library, or unknown)
    becomes the kernel's `def` line; one in a TTGIR text is kept, because a caller that has the text
    can map it.
    """
    if file.endswith(TTGIR_FILE_SUFFIX):
        return SourcePosition(file, line, column)
    place = position_in_kernel(kernel, file, line, column_from_one(column))
    return place or definition_of(kernel)


def position_in_kernel(kernel: Any, file: str, line: int, column: int) -> SourcePosition | None:
    """A place in a function of the kernel, with the file's column (from 1); else None."""
    for function in reachable_functions(kernel):
        definition = definition_of(function)
        last = definition.line + str(function.src).rstrip().count("\n")
        if definition.file == file and definition.line <= line <= last:
            cut_off = 0 if COLUMNS_OF_THE_FILE else indentation(function)
            return SourcePosition(file, line, cut_off + column)
    return None


class PipelineStopped(Exception):
    """Raised by the watcher of a compilation to end it."""


@dataclass(frozen=True)
class IrText:
    """An IR text to compile on from."""

    text: str
    language: str
    """The stage that made it: "ttir", "ttgir", ...; "source" for a front end's module."""
    gluon: bool = False
    """Whether a front end's module is Gluon's."""
    file: str = ""
    """Its name in messages: a path, or a few words."""

    @property
    def file_name(self) -> str:
        """A name for a file that holds it."""
        return f"given.{self.language}"


@contextmanager
def translated_text_errors(
    given: IrText, target: Target, running_pass: Callable[[], str | None]
) -> Iterator[None]:
    """Turn what the compiler raises about an IR text into a CompileError on the text's line."""
    with redirect_stdout(io.StringIO()), _tapped_stderr() as printed:
        try:
            yield
        except (KernelLabError, PipelineStopped):
            raise
        except PTXASError as error:
            if (fault := machine_error(error, _CANNOT_RUN)) is not None:
                raise fault from error
            raise ptxas_diagnostic(str(error), given, target) from error
        except Exception as error:  # Triton and LLVM raise anything
            if (fault := machine_error(error, _CANNOT_RUN, printed())) is not None:
                raise fault from error
            raise text_diagnostic(printed(), given, target, running_pass(), str(error)) from error


@contextmanager
def _tapped_stderr() -> Iterator[Callable[[], str]]:
    """Read back what is printed to stderr meanwhile.

    A worker process's stderr is a file: what is printed stays there,
    for whoever wants to know why the process died.
    """
    if stat.S_ISREG(os.fstat(2).st_mode) and fcntl.fcntl(2, fcntl.F_GETFL) & os.O_RDWR:
        start = os.lseek(2, 0, os.SEEK_END)
        yield lambda: os.pread(2, 1 << 24, start).decode(errors="replace")
    else:
        with captured_output(replay=False) as output:
            yield output.take


def ptxas_diagnostic(printed: str, given: IrText, target: Target) -> CompileError:
    """ptxas' words about a PTX text, or about the PTX that was made of another text."""
    words, numbers = _assembler_message(printed)
    position = None
    if given.language == "ptx" and numbers:
        position = SourcePosition(given.file, numbers[0])
    lead = f"ptxas cannot assemble {given.file}"
    return _refused(target, words, position, lead=lead, failed_pass="sass.ptxas")


def text_diagnostic(
    printed: str, given: IrText, target: Target, running: str | None, raised: str
) -> CompileError:
    """The output of MLIR or LLVM about an IR text, as an error on its line."""
    position = None
    words = raised or "the compiler gives no reason"
    reported = [d for d in _DIAGNOSTIC.finditer(printed) if "Failures have been" not in d["words"]]
    if reported:
        words = reported[0]["words"]
        named = diagnostic_file(reported[0])
        file = given.file if Path(named).name == given.file_name else named
        position = SourcePosition(file, int(reported[0]["line"]), int(reported[0]["column"]))
    elif unplaced := re.search(r"^(?:<unknown>:0|loc\(unknown\)): error: (.+)$", printed, re.M):
        words = unplaced[1]
    elif fatal := _FATAL.search(printed):
        words = fatal["words"]
        if number := re.search(r"lineno: (\d+)$", words):
            words = words[: number.start()].rstrip()
            position = SourcePosition(given.file, int(number[1]))
    elif failed_assertion := _failed_assertion(printed):
        words = failed_assertion
    return _refused(
        target,
        words,
        position,
        lead=f"{given.file} cannot be compiled",
        failed_pass=running,
        pass_names=running or "",
    )


class _Output:
    """The compiler's output while it ran."""

    def __init__(self) -> None:
        self.python = io.StringIO()
        self.native_file = nameless_file(0)  # closed by captured_output

    def take(self) -> str:
        """Everything printed so far. Of it only what the kernel itself printed will be shown:
        the rest is a dump of the whole program, which Triton and MLIR print when they fail."""
        printed = self.python.getvalue()
        self.native_file.seek(0)
        diagnostics = self.native_file.read().decode(errors="replace")
        self.native_file.truncate(0)
        dump = _DUMP.search(printed)
        self.python.seek(0)
        self.python.truncate()
        self.python.write(printed[: dump.start()] if dump else printed)
        return printed + diagnostics


_DUMP = re.compile(r"^(?:\s*={40,}|module |#\w+ = )", re.M)
"""Where a dump begins: the banner above a PTX that ptxas refused, or a module of MLIR."""

_capturing = threading.RLock()
hold_while_forking(_capturing)


@contextmanager
def captured_output(replay: bool = True) -> Iterator[_Output]:
    """Hold back what the compiler prints, MLIR to the process's stderr and Triton to sys.stdout,
    until the block ends.

    MLIR reports its errors only there.
    """
    with _capturing:
        original = -1
        try:
            # Ctrl-C in between would leave a descriptor open, or stderr led away for good.
            with interrupted_afterwards(), translated_machine_errors(_CANNOT_RUN):
                hold_standard_descriptors()
                output = _Output()
                flush_errors()
                original = os.dup(2)
                os.dup2(output.native_file.fileno(), 2)
            with redirect_stdout(output.python):
                yield output
        finally:
            if original >= 0:
                with interrupted_afterwards():
                    os.dup2(original, 2)
                    os.close(original)
                    if replay:
                        _replay(output)
                    output.native_file.close()


def _replay(output: _Output) -> None:
    if text := output.python.getvalue():
        print_as_far_as_possible(text)
    output.native_file.seek(0)
    if words := output.native_file.read():
        with contextlib.suppress(OSError):  # A full disk behind stderr ends no compilation.
            os.write(2, words)
