"""A backend's stages: the modules that they start from, texts of MLIR, and ptxas."""

from __future__ import annotations

import re
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

from triton._C import libtriton
from triton.backends.compiler import Language

from kernellab.common import processes
from kernellab.common.patches import WhileAnyThread, replaced
from kernellab.common.system import DISK_ADVICE, temporary_folder
from kernellab.errors import KernelLabError, MachineError, WorkerError, WorkerLost
from kernellab.records import Target
from kernellab.triton_api.diagnostics import OWN_ASSEMBLER, captured_output
from kernellab.triton_api.targets import backend_for, gpu_target

# PTX on its way through ptxas: as that reads it, in a folder that goes, and whole on its return.
#
# Before release 13, which Triton uses up to sm_90, it takes ASCII only, even in comments; into
# these go the names of the kernel's files and what inline assembly says.

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def with_ascii_comments(ptx: str) -> str:
    """The text with escapes for what is not ASCII in its comments; all else is not changed."""
    if ptx.isascii():
        return ptx
    return _COMMENT.sub(
        lambda comment: comment[0].encode("ascii", "backslashreplace").decode(), ptx
    )


def careful_assembler(backend: Any) -> AbstractContextManager[None]:
    """While active, the backend hands its PTX to ptxas with comments in ASCII; what is written
    meanwhile goes afterwards, however that ends; and half a cubin, which a full disk leaves without
    a word, is a MachineError.

    The stage "ptx" itself, and keys of Triton's cache, stay what they are.
    """
    kind: Any = type(backend)
    return _careful_in(kind) if hasattr(kind, "make_cubin") else nullcontext()


@cache
def _careful_in(kind: Any) -> WhileAnyThread:
    """A class of backends with a careful assembler in place of the usual one."""

    def begin() -> AbstractContextManager[None]:
        original = kind.make_cubin

        def make_cubin(self: Any, source: str, *more: Any, **keywords: Any) -> Any:
            return _assembled(original, self, with_ascii_comments(source), *more, **keywords)

        return replaced(kind, make_cubin=make_cubin)

    return WhileAnyThread(begin)


def _assembled(make_cubin: Any, *arguments: Any, **keywords: Any) -> bytes:
    with temporary_folder() as folder:
        try:
            cubin: bytes = _with_files_in(folder, make_cubin)(*arguments, **keywords)
        except FileNotFoundError as error:
            if not str(error.filename).startswith(folder):
                raise
            cubin = b""
    if not cubin:
        raise MachineError(
            "The compiler cannot run: the ptxas program wrote nothing.",
            advice=f"{OWN_ASSEMBLER} {DISK_ADVICE}",
        )
    if not is_whole(cubin):
        raise MachineError(
            "The compiler cannot run: ptxas wrote only a part of its output.", advice=DISK_ADVICE
        )
    return cubin


def _with_files_in(folder: str, function: Any) -> Any:
    """A backend's function with its temporary files in a folder, since Triton may leave them."""
    if not isinstance(function, FunctionType) or function.__globals__.get("tempfile") != tempfile:
        return function  # of a version, or a tool, that no one has seen yet
    make = partial(tempfile.NamedTemporaryFile, dir=folder)
    files = SimpleNamespace(**{**vars(tempfile), "NamedTemporaryFile": make})
    names = {**function.__globals__, "tempfile": files}
    code, defaults, cells = function.__code__, function.__defaults__, function.__closure__
    copied = FunctionType(code, names, function.__name__, defaults, cells)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


_HEADER = struct.Struct("<16s16x2Q6x4H")
"""Of an ELF file of 64 bits: its first bytes; where its two tables begin; how long their rows are,
and how many."""


def is_whole(binary: bytes) -> bool:
    """Whether a cubin or an hsaco is as long as the tables say that it ends with."""
    if len(binary) < 64:
        return False
    magic: bytes
    magic, programs, sections, *rows = _HEADER.unpack_from(binary)
    end: int = max(programs + rows[0] * rows[1], sections + rows[2] * rows[3])
    return magic.startswith(b"\x7fELF") and end <= len(binary)


StageFunction = Callable[[Any, Any], Any]
"""Takes what the stage before made, and the metadata, a dict that it adds to;
gives the stage's own module, text or bytes."""


def stage_functions(backend: Any, parsed: Any, gluon: bool = False) -> dict[str, StageFunction]:
    """Stage name -> its function, in the order of the pipeline.

    Args:
        backend, parsed: Triton's backend, and the options that it parsed.
        gluon: whether the kernel is one of Gluon's.
    """
    stages: dict[str, StageFunction] = {}
    backend.add_stages(stages, parsed, Language.GLUON if gluon else Language.TRITON)
    if assemble := stages.get("cubin"):

        def to_cubin(ptx: Any, metadata: Any) -> Any:
            with careful_assembler(backend):
                return assemble(ptx, metadata)

        stages["cubin"] = to_cubin
    return stages


def stage_names(target: Target, gluon: bool = False) -> list[str]:
    """The names of a target's stages, first to last: ttir, ttgir, llir, ptx, cubin."""
    backend = backend_for(target)
    return list(stage_functions(backend, backend.parse_options({}), gluon))


def new_context(backend: Any) -> Any:
    """A context of MLIR that knows Triton's dialects and the backend's."""
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    backend.load_dialects(context)
    return context


def read_module(text: str, backend: Any, file_name: str = "module.mlir") -> Any:
    """The module of an MLIR text, which may abort the process if no compiler made it.

    Args:
        file_name: of the passing file that MLIR reads it from, which its messages name.

    Raises:
        KernelLabError: printed again, it would take too much memory.
        RuntimeError: MLIR cannot read it; it prints why.
    """
    _check_aliases(text)
    return parsed_module(text, new_context(backend), file_name)


def parsed_module(text: str, context: Any, file_name: str = "module.mlir") -> Any:
    """The module of an MLIR text that a compiler made, in a context of MLIR."""
    with temporary_folder() as folder:
        file = Path(folder, file_name)
        file.write_text(text, encoding="utf-8")
        module = libtriton.ir.parse_mlir_module(str(file), context)
    module.context = context  # which must live as long as the module does
    return module


_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_DEFINITION = re.compile(r"([#!][\w$-]+)\s*=(?!=)")
_ALIAS = re.compile(r"[#!][\w$-]+")
_BRACKET_OR_END = re.compile(r"[\[({<]|[\])}>]|\n")

_MOST_EXPANDED = 128 << 20
"""The most characters of a text with its aliases spelled out, as in the generic form."""


def _check_aliases(text: str) -> None:
    """Raise KernelLabError if forty lines of aliases, each with the one before it twice, stand for
    more than memory holds. Those of locations stay aliases in what MLIR prints.
    """
    plain = _STRING.sub(lambda string: "x" * len(string[0]), text).replace("->", "  ")
    first, *definitions = _DEFINITION.split(plain)
    sizes: dict[str, int] = {}

    def expanded(part: str) -> int:
        return len(part) + sum(sizes.get(name, 0) for name in _ALIAS.findall(part))

    total = len(first)
    for name, body in zip(definitions[::2], definitions[1::2]):
        end = _end_of_value(body)
        size = expanded(body[:end])
        sizes[name] = 0 if body.lstrip().startswith("loc(") else size
        total += size + expanded(body[end:])
        if total > _MOST_EXPANDED:
            raise KernelLabError(
                f"MLIR cannot read this text: its aliases stand for more than {_MOST_EXPANDED:,} "
                f"characters, as {name!r:.80} does."
            )


def _end_of_value(body: str) -> int:
    """Return where a definition ends: at the end of a line, outside of brackets."""
    depth = 0
    for mark in _BRACKET_OR_END.finditer(body):
        if mark[0] == "\n" and depth <= 0:
            return mark.start()
        depth += (mark[0] in "[({<") - (mark[0] in "])}>")
    return len(body)


@contextmanager
def freed_after(module: Any) -> Iterator[Any]:
    """The module, whose operations are freed afterwards: nothing in it may be used any more.

    Triton's bindings own no module, and so free none. One that does not go through here stays in
    memory for as long as the process runs.
    """
    try:
        yield module
    finally:
        visited: deque[Any] = deque(maxlen=2)
        module.walk(visited.append)  # the module itself comes last
        if len(visited) == 2:
            visited[0].get_block().erase()


def front_end_module(source: Any, target: Target, parsed: Any) -> Any:
    """The module that the front end makes of an `ASTSource`; raises what the front end raises."""
    backend = backend_for(target)
    return source.make_ir(
        gpu_target(target),
        parsed,
        backend.get_codegen_implementation(parsed),
        backend.get_module_map(),
        new_context(backend),
    )


# Texts of MLIR: read by MLIR, printed in the form that needs no knowledge of any op.


def parse_mlir(text: str, target: Target) -> Any:
    """The module of MLIR that a text describes, pretty or generic:
    TTIR, TTGIR, or the LLVM dialect, of a target.

    What has no location in the text gets an unknown one. The text must come from the compiler,
    or be read in a process that may abort: MLIR asserts, and some attributes that it never
    prints make it do so.

    Raises:
        KernelLabError: MLIR cannot read the text; the message has MLIR's own words and the line.
    """
    with captured_output() as output:
        try:
            return read_module(text, backend_for(target))
        except RuntimeError as error:
            words = _ERROR_IN_TEXT.sub(r"line \1, column \2: ", output.take()).strip()
            why = (words or str(error))[:_LONGEST_WORDS]
            raise KernelLabError(f"MLIR cannot read this text: {why}") from error


def generic_form(text: str, target: Target) -> str:
    """A text in MLIR's generic form, with locations. Raises KernelLabError: as `parse_mlir`."""
    with freed_after(parse_mlir(text, target)) as module:
        generic = generic_text(module)
    # MLIR takes the place in the text that it reads for the origin of what states none.
    return _PLACE_IN_TEXT.sub("loc(unknown)", generic)


_PLACE_IN_TEXT = re.compile(r'loc\("[^"]*/kernellab-[^"/]*/module\.mlir":\d+:\d+\)')
_ERROR_IN_TEXT = re.compile(r'loc\("[^"]*/module\.mlir":(\d+):(\d+)\): error: ')

_LONGEST_WORDS = 2_000
"""Characters of MLIR's words: it quotes a line of any length."""

_UNPRINTABLE = "llvm.data_layout"
"""An attribute that MLIR verifies when it prints; an invalid one gives the generic form."""


def generic_text(module: Any) -> str:
    """The module in MLIR's generic form: every op quoted, with locations and attributes."""
    builder = libtriton.ir.builder(module.context)
    module.set_attr(_UNPRINTABLE, builder.get_string_attr("generic form, please"))
    text = str(module)
    return re.sub(
        rf' ?{{{re.escape(_UNPRINTABLE)} = "[^"]*"}}|{re.escape(_UNPRINTABLE)} = "[^"]*",? ?',
        "",
        text,
    )


# Where MLIR reads a text: in this process, or in the worker process, where it may crash.

Query = Callable[..., Any]
"""Runs a function of MLIR: `query(function, text, target, ...)` returns its result."""


def query_here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run it in this process: for texts that this compiler made."""
    return function(*arguments)


def query_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run it in the worker process: for texts from files, which may crash MLIR."""
    try:
        return processes.call(f"{function.__module__}:{function.__name__}", *arguments)
    except WorkerLost:
        raise
    except WorkerError as death:
        raise WorkerError(
            f"MLIR crashed on a text of this record while it ran {function.__name__}. {death}",
            advice=(
                "The text may have been edited, or come from another version of Triton: compare it "
                "with what the compiler prints now."
            ),
            last_words=death.last_words,
        ) from death
