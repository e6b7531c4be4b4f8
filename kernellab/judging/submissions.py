"""Other people's kernels as objects of this process, which never runs their Python."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab import triton_api
from kernellab.common.saved_files import BadFile, regular_bytes, text_in
from kernellab.common.system import saved_path
from kernellab.common.text import remember_source
from kernellab.compiler.binding import bind
from kernellab.compiler.modules import position_of
from kernellab.errors import ArgumentError, Diagnostic, KernelLabError, WorkerError
from kernellab.ir import tt
from kernellab.ir.syntax import read_module
from kernellab.judging.code import (
    Call,
    Code,
    Outcome,
    PackedKernel,
    Request,
    SourcePart,
    Texts,
    calls_of,
)
from kernellab.judging.worker import CLEAN
from kernellab.records import Target
from kernellab.records.display import described
from kernellab.triton_api import JITFunction
from kernellab.triton_api.kernel_contents import pack

_LARGEST = 4 << 20
"""Bytes of a submission's file."""

_GRACE = 20.0
"""Seconds that the clean process has beyond those of the confined one."""


def code_of(submission: Any, imports: Sequence[str] = ()) -> Code:
    """Return the code of a submission, as it is sent to the confined process, which may import the
    modules beside its file, or beside the package that the file is in, and those in `imports`.

    Raises:
        ArgumentError: there is no such file, or the object has no source.
    """
    if isinstance(submission, JITFunction):
        return PackedKernel(pack(submission))
    if isinstance(submission, str):
        path, _, name = submission.partition("::")
    else:
        inner = submission
        while hasattr(inner, "fn"):  # an autotuner's kernel
            inner = inner.fn
        try:
            path, name = inspect.getsourcefile(inner) or "", str(inner.__qualname__)
        except (AttributeError, TypeError) as error:
            raise ArgumentError(
                f"submission must be FILE::NAME, a kernel, a function or a class, got "
                f"{described(submission)}."
            ) from error
    try:
        text = text_in(regular_bytes(saved_path(path, ArgumentError), _LARGEST))
    except (OSError, BadFile) as error:
        why = f"it {error}" if isinstance(error, BadFile) else error
        raise ArgumentError(
            f"The file of the submission, {path!r}, cannot be read: {why}.",
            advice="Name it as FILE::NAME.",
        ) from error
    remember_source(path, text)
    folder, packages = Path(path).absolute().parent, list[str]()
    while (folder / "__init__.py").exists():
        packages.insert(0, folder.name)
        folder = folder.parent
    return Texts((SourcePart(path, text),), name, (str(folder), *imports), ".".join(packages))


def name_of(submission: Any) -> str:
    """Return the name of a submission in a verdict."""
    return (
        submission
        if isinstance(submission, str)
        else str(getattr(submission, "__name__", type(submission).__name__))
    )


class Refused(KernelLabError):
    """A kernel that the front end refused in another process."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        """Raise `diagnostic` here."""
        super().__init__(
            diagnostic.what,
            advice=diagnostic.advice,
            position=diagnostic.position,
            why=diagnostic.why,
        )
        self._diagnostic = diagnostic

    @property
    def diagnostic(self) -> Diagnostic:
        """The front end's message."""
        return self._diagnostic


@dataclass(frozen=True)
class Submission:
    """A kernel that was compiled in a confined process.

    Attributes:
        kernel: an object that can be used as a kernel; None if there is none.
        instead: what there is in place of a kernel.
        problem: what kept the code from running to its end, or the kernel from compiling at all.
    """

    kernel: Any = None
    instead: str = ""
    problem: Diagnostic | None = None


def submit(
    code: Code,
    launches: Sequence[Mapping[str, Any]],
    target: Target,
    *,
    seconds: float,
    debug_info: bool = False,
) -> Submission:
    """Compile other people's kernel for launches, in a confined process.

    Args:
        code: the kernel, or the texts that define it.
        launches: the arguments of each by parameter; the process receives numbers and dtypes, but
            no contents of tensors.
        target: the GPU to compile for.
        seconds: how long all of it may take.
        debug_info: whether the kernel can be traced afterwards.

    Raises:
        WorkerLost: no process could be started.
    """
    calls = _distinct(calls_of(launches))
    request = Request(code, tuple(calls), target, debug_info)
    answer = confined("code:compile_confined", request, seconds)
    if isinstance(answer, Diagnostic):
        return Submission(problem=answer)
    return _read(answer, calls, launches, request)


def variants(
    code: Code,
    sources: Sequence[str],
    launches: Sequence[Mapping[str, Any]],
    target: Target,
    *,
    seconds: float,
) -> list[Any]:
    """Compile variants of other people's kernel for launches, in one confined process.

    Args:
        code, launches, target, seconds: as for `submit`.
        sources: of each variant the source that Triton compiles in place of the kernel's own.

    Returns:
        For each source an object that can be used as a kernel, or None if there is none.

    Raises:
        WorkerLost: no process could be started.
    """
    calls = _distinct(calls_of(launches))
    request = Request(code, tuple(calls), target, sources=tuple(sources))
    none: list[Any] = [None] * len(sources)
    answer = confined("code:compile_confined", request, seconds)
    answers = [] if isinstance(answer, Diagnostic) else answer.get("variants", [])
    if len(answers) != len(sources):
        return none
    return [each and _read(each, calls, launches, request).kernel for each in answers]


def confined(function: str, request: Any, seconds: float) -> dict[str, Any] | Diagnostic:
    """Return what a confined process answers to a request, or why it does not answer.

    Args:
        function: "module:name" of what the clean process calls with the request.
        request: plain data.
        seconds: how long it may take.

    Raises:
        WorkerLost: no process could be started.
    """
    try:
        outcome: Outcome = CLEAN.call(
            f"kernellab.judging.{function}", request, seconds, seconds=seconds + _GRACE
        )
    except WorkerError as error:
        if not error.died:
            raise
        return _problem("invalid-module", _INVALID)
    if outcome.answer is None:
        return _problem(*_ENDINGS[outcome.ending], words=outcome.words)
    return outcome.answer


def _distinct(calls: Sequence[Call]) -> list[Call]:
    return list({repr(sorted(call.items())): call for call in calls}.values())


_INVALID = "its compiled module is not one that Triton's front end makes"
_ENDINGS: Mapping[str, tuple[str, str, str]] = {
    "out-of-time": (
        "no-end",
        "its Python did not end in time",
        "Check the loops that run while the kernel compiles, such as tl.static_range.",
    ),
    "refused-call": (
        "refused-call",
        "its Python tried to start or signal a process, or to use the network, while the kernel "
        "compiled",
        "A kernel computes on its arguments: take the call out.",
    ),
    "ended": (
        "ended-process",
        "its Python ended the process that compiled it ({words})",
        "Take out what exits, or what uses more memory than the process may.",
    ),
}


def _problem(kind: str, what: str, advice: str = "", words: str = "") -> Diagnostic:
    return Diagnostic("error", kind, f"the code was not compiled: {what.format(words=words)}",
                      advice=advice)  # fmt: skip


def _read(
    answer: Mapping[str, Any],
    calls: Sequence[Call],
    launches: Sequence[Mapping[str, Any]],
    request: Request,
) -> Submission:
    try:
        if "problem" in answer:
            return Submission(problem=Diagnostic.from_json(answer["problem"]))
        if "instead" in answer:
            return Submission(instead=str(answer["instead"]))
        kernel = triton_api.given_kernel(answer["functions"])
        modules = answer["modules"]
        for launch in launches:
            (call,) = calls_of([launch])
            _give(kernel, launch, modules[calls.index(call)], modules, request.target)
        return Submission(kernel)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return Submission(problem=_problem("invalid-module", _INVALID))


def _give(
    kernel: Any,
    launch: Mapping[str, Any],
    module: Mapping[str, Any],
    modules: Sequence[Mapping[str, Any]],
    target: Target,
) -> None:
    """Give a kernel the module that was made for a launch."""
    if "same_as" in module:
        module = modules[module["same_as"]]
    if "error" in module:
        made: triton_api.GivenModule | KernelLabError = Refused(
            Diagnostic.from_json(module["error"])
        )
    else:
        made = triton_api.GivenModule(
            str(module["text"]),
            str(module.get("debug_text", "")),
            triton_api.records_from_json(module.get("records", ()), kernel),
        )
    try:
        specialization = bind(kernel, (), launch, target).specialization
    except KernelLabError:
        return  # its parameters are not those of the launch, as a run says
    if isinstance(made, triton_api.GivenModule) and not triton_api.entry_fits(
        made.text, specialization
    ):
        made = Refused(_problem("invalid-module", _INVALID))
    triton_api.give_module(kernel, specialization, made)


# What a judged kernel may not contain, whatever it computes.


def foreign_code(kernel: Any, target: Target) -> Diagnostic | None:
    """Return a diagnostic if a module of a kernel of `submit` contains inline assembly."""
    for text in triton_api.given_texts(kernel):
        if _INLINE.search(text) is None:
            continue
        operations = read_module(text).walk()
        inline = next(op for op in operations if isinstance(op, tt.ElementwiseInlineAsmOp))
        return Diagnostic(
            "error",
            "inline-assembly",
            f"{kernel.__name__} contains inline assembly, which is not checked for {target}",
            position_of(inline),
            why="Its instructions run on the GPU as they are: no one can say which memory they "
            "access, or that they compute the same elsewhere.",
            advice="Write the expression with functions of triton.language or libdevice.",
        )
    return None


_INLINE = re.compile(r'^[ \t]*(?:%[^=\n]+= )?"tt\.elementwise_inline_asm"\(', re.MULTILINE)
"""The operation in MLIR's generic form; a string of a module has no end of a line in it."""
