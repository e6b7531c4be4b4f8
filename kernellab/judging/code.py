"""Other people's code: what is sent of it and of its calls, the confined process in which it runs,
and the clean process that starts confined ones and verifies what they made.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import math
import operator
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from kernellab import triton_api
from kernellab.common.processes import Forked
from kernellab.common.saved_files import BadFile, json_in, text_in
from kernellab.common.system import temporary_folder
from kernellab.common.text import error_text, remember_source
from kernellab.compiler.binding import BoundCall, bind
from kernellab.errors import Diagnostic, KernelLabError, WorkerError
from kernellab.judging.confinement import confine, end_on_process_calls
from kernellab.launch.argument_copies import map_tensors
from kernellab.launch.tile_kernel import tile_kernels_in
from kernellab.records import Target
from kernellab.records.display import described
from kernellab.triton_api.compilation import DESCRIPTORS
from kernellab.triton_api.kernel_contents import unpack

# Other people's code, as it is sent to the process that runs it.


@dataclass(frozen=True)
class PackedKernel:
    """A kernel of this process, as `triton_api.kernel_contents.pack` packs it."""

    content: bytes


@dataclass(frozen=True)
class SourcePart:
    """A text of Python.

    Attributes:
        file: the name of the file that it runs as.
        text: the text.
        only_definitions: whether only the part that `definitions` returns runs.
    """

    file: str
    text: str
    only_definitions: bool = False


@dataclass(frozen=True)
class Texts:
    """Texts of Python that run one after the other in one scope.

    Attributes:
        parts: the texts.
        name: the kernel's name in the scope.
        folders: from which they may import modules.
        package: the one that the text is in, to which its relative imports refer; "" for none.
    """

    parts: tuple[SourcePart, ...]
    name: str
    folders: tuple[str, ...] = ()
    package: str = ""


Code = PackedKernel | Texts


def definitions(text: str) -> list[ast.stmt]:
    """Return what a cell defines for the cells below it: imports, functions, classes, constants.
    Other statements, such as launches, are left out, and so is a cell that is not Python.
    """
    lines = text.split("\n")
    plain = ["" if line.lstrip()[:1] in ("%", "!", "?") else line for line in lines]
    try:
        body = ast.parse("\n".join(plain)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        statement
        for statement in body
        if isinstance(statement, _DEFINITIONS) or _is_constant(statement)
    ]


_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
_OF_CONSTANTS = ("constexpr", "float", "int")


def _is_constant(statement: ast.stmt) -> bool:
    """Return whether it assigns a value that is not computed: EPS: tl.constexpr = 1e-5."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    calls = [node.func for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
    return all(ast.unparse(name).rpartition(".")[2] in _OF_CONSTANTS for name in calls)


# Calls to record in the confined process, whose tensors are described and not sent.

MOST_CONFIGS = 64
"""The configs of an autotuner that are judged."""


@dataclass(frozen=True)
class TensorView:
    """A tensor as a part of a storage; sizes, strides and offset count elements."""

    storage: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class HostCall:
    """One call of the submission.

    Attributes:
        args, keywords: its arguments, with a TensorView in place of each tensor.
        grid: of a kernel, the grid of its launch; None for a function.
    """

    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None


@dataclass(frozen=True)
class HostRequest:
    """What a confined process is to record.

    Attributes:
        code: the submission.
        target: the GPU that torch and Triton report.
        storages: the bytes of each storage that the calls share.
        calls: the calls, made one after the other in one process.
        constructor: the arguments with which a class is called first; None for a function.
        parameters: of a module, the tensors that its parameters are, by name.
        is_again: whether the inputs hold other numbers there than the first time.
    """

    code: Code
    target: Target
    storages: tuple[int, ...]
    calls: tuple[HostCall, ...]
    constructor: tuple[Any, ...] | None = None
    parameters: Mapping[str, TensorView] = field(default_factory=dict)
    is_again: bool = False


def leaves(value: Any) -> Iterator[Any]:
    """Yield the items of lists, tuples and mappings, the tensors of descriptors, and the arguments
    of calls.
    """
    if isinstance(value, HostCall):
        value = (*value.args, value.keywords)
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value.base if isinstance(value, DESCRIPTORS) else value


def tensors_within(value: Any) -> Iterator[torch.Tensor]:
    """Yield the leaves of a value that are tensors."""
    return (leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value whose leaves are changed: the items of lists, tuples and mappings, and the
    tensor of a descriptor.
    """
    if isinstance(value, list | tuple):
        return type(value)(mapped(item, change) for item in value)
    if isinstance(value, Mapping):
        return {name: mapped(item, change) for name, item in value.items()}
    if isinstance(value, DESCRIPTORS):
        twin = copy.copy(value)  # whose checks are not made again, for a view is not a tensor
        twin.base = change(value.base)
        return twin
    return change(value)


# In the confined process: other people's code runs, and their kernel compiles to texts.
#
# This process is not trusted: it answers with JSON, and the modules in the answer are read, checked
# and run elsewhere.


Call = Mapping[str, Any]
"""The arguments of a launch by parameter: numbers, and of a tensor its dtype alone."""


@dataclass(frozen=True)
class Request:
    """What a confined process is to compile.

    Attributes:
        code: other people's code.
        calls: the launches to compile the kernel for.
        target: the GPU to compile for.
        debug_info: whether to return the modules with debug records too, for stepping.
        sources: the sources of variants, which replace the kernel's one after the other; without
            any, the kernel itself is compiled.
    """

    code: Code
    calls: tuple[Call, ...]
    target: Target
    debug_info: bool = False
    sources: tuple[str, ...] = ()


def answer(request: Request) -> bytes:
    """Return as JSON the functions of the kernel and its module for each call, or what keeps it
    from compiling.
    """
    try:
        kernel = _kernel_of(request)
    except Exception as error:  # other people's Python may raise anything
        return _json(problem=_raised(error))
    if not isinstance(kernel, triton_api.JITFunction):
        return _json(instead=described(kernel)[:_LONGEST])
    end_on_process_calls()
    if request.sources:
        return _json(variants=[_variant(kernel, source, request) for source in request.sources])
    return _json(**_described(kernel, request))


def _described(kernel: Any, request: Request) -> dict[str, Any]:
    modules = _modules(kernel, request)
    return {"functions": triton_api.facts_of(kernel), "modules": modules}


def _variant(kernel: Any, source: str, request: Request) -> dict[str, Any] | None:
    """Return the answer for a variant of a kernel; None if it is not a kernel."""
    try:
        return _described(triton_api.with_source(kernel, source), request)
    except Exception:  # of other people's Python, or of a source that is none
        return None


_LONGEST = 500
"""The most characters of an error, or of what there is in place of a kernel."""


def _raised(error: BaseException) -> dict[str, Any]:
    words = error_text(error)[:_LONGEST]
    return Diagnostic("error", "code-error", f"the code raises {words}").to_json()


def _json(**contents: Any) -> bytes:
    return json.dumps(contents).encode()


def _kernel_of(request: Request) -> Any:
    code = request.code
    if isinstance(code, PackedKernel):
        return unpack(code.content)
    scope: dict[str, Any] = {"__name__": "__main__"}
    for part in code.parts:
        _run_part(part, request.target, scope)
    return scope.get(code.name)


def _run_part(part: SourcePart, target: Target, scope: dict[str, Any]) -> None:
    """Run a text as a file of its name, so that kernels find their source."""
    remember_source(part.file, part.text)
    with tile_kernels_in(part.file, target):
        if not part.only_definitions:
            exec(compile(part.text, part.file, "exec"), scope)  # noqa: S102 - in confinement
            return
        for statement in definitions(part.text):
            with contextlib.suppress(Exception):  # the kernel may not need what fails here
                above = ast.Module([statement], [])
                exec(compile(above, part.file, "exec"), scope)  # noqa: S102 - in confinement


def _modules(kernel: Any, request: Request) -> list[dict[str, Any]]:
    """Return the module for each call, or the number of an earlier one with the same module. After
    an error, which leaves a kernel of Triton's half hashed, nothing more is compiled.
    """
    made: list[dict[str, Any]] = []
    known: dict[Any, int] = {}
    for number, call in enumerate(request.calls):
        if made and "error" in made[-1]:
            break
        try:
            values = {name: _stand_in(value) for name, value in call.items()}
            bound = bind(kernel, (), values, request.target, options=_options(kernel))
            first = known.setdefault(bound.key or number, number)
            module = _module(kernel, bound, request) if first == number else {"same_as": first}
        except KernelLabError as error:
            module = {"error": error.diagnostic.to_json()}
        except Exception as error:  # other people's Python may raise anything
            module = {"error": _raised(error)}
        made.append(module)
    return [*made, *([{"same_as": len(made) - 1}] * (len(request.calls) - len(made)))]


def _module(kernel: Any, bound: BoundCall, request: Request) -> dict[str, Any]:
    key = (kernel, bound.specialization, request.target, bound.options)
    made: dict[str, Any] = {"text": triton_api.front_end_text(*key)[0]}
    if request.debug_info:
        text, records = triton_api.front_end_text(*key, debug_info=True)
        made |= {"debug_text": text, "records": triton_api.records_as_json(records)}
    return made


def _options(kernel: Any) -> Mapping[str, Any]:
    """Return options with which Triton keeps a kernel's assertions, if it has any."""
    if triton_api.made_of(kernel).has_assertions:
        return {"debug": True, "sanitize_overflow": False}
    return {}


def _stand_in(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.empty(1, dtype=value)
    if isinstance(getattr(value, "base", None), torch.dtype):
        value = copy.copy(value)
        value.base = _stand_in(value.base)
    return value


def calls_of(launches: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Return the description of launches for a confined process, without any tensors."""
    return [
        {name: map_tensors(value, operator.attrgetter("dtype")) for name, value in launch.items()}
        for launch in launches
    ]


# In the clean process: confined processes are started, and what they made is verified.
#
# The clean process has torch and Triton imported, so that a copy of it starts in milliseconds.
# It never runs other people's Python itself.


_MOST_WRITTEN = 64 << 20
"""The most bytes of files in the folder of a confined process."""


@dataclass(frozen=True)
class Outcome:
    """How a confined process ended.

    Attributes:
        ending: "answered"; "out-of-time"; "refused-call" if it tried to start a process or to use
            the network while its kernel compiled; "ended" if it ended without an answer.
        answer: what it answered, JSON as Python's types.
        words: of "ended", how.
    """

    ending: Literal["answered", "out-of-time", "refused-call", "ended"]
    answer: dict[str, Any] | None = None
    words: str = ""


def ready() -> None:
    """Do nothing: the process has imported what it needs."""


def compile_confined(request: Request, seconds: float) -> Outcome:
    """Run a request in a confined process, and verify the modules that it answers with."""
    return run_confined(lambda: answer(request), request.target, seconds)


def run_confined(function: Callable[[], bytes], target: Target, seconds: float) -> Outcome:
    """Run a function in a confined process, and verify the modules that it answers with.

    A module that MLIR refuses becomes an error. One that aborts MLIR ends this process, not the
    caller's.
    """
    with temporary_folder() as folder:
        outcome = _run(function, folder, seconds)
    if outcome.answer is not None:
        for part in _answer_parts(outcome.answer):
            for module in part.get("modules", ()):
                _verify(module, target)
    return outcome


def _verify(module: dict[str, Any], target: Target) -> None:
    """Have MLIR read a module and print it again; replace one that it refuses by the error."""
    try:
        for name in ("text", "debug_text"):
            if name in module:
                module[name] = triton_api.generic_form(str(module[name]), target)
    except KernelLabError as error:
        module.clear()
        module["error"] = error.diagnostic.to_json()


def _run(function: Callable[[], bytes], folder: str, seconds: float) -> Outcome:
    def confined() -> bytes:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        confine(folder, seconds)
        return function()

    process = Forked(confined, "It", guarded=True, watch=lambda: _watch(folder))
    try:
        answer = json_in(text_in(process.result(seconds)))
        if isinstance(answer, dict) and all(map(_is_list_of_modules, _answer_parts(answer))):
            return Outcome("answered", answer)
    except WorkerError as error:
        if error.timed_out or error.ending == "signal SIGXCPU":
            return Outcome("out-of-time")
        if error.ending == "signal SIGSYS":
            return Outcome("refused-call")
        return Outcome("ended", words=(error.ending or error.problem)[:_LONGEST])
    except (BadFile, TypeError):
        pass
    return Outcome("ended", words="its answer is not valid")


def _answer_parts(answer: dict[str, Any]) -> list[Any]:
    """Return the parts of an answer that have modules: itself and each of its variants."""
    variants = answer.get("variants", [])
    return [answer, *(part for part in variants if part is not None)]


def _is_list_of_modules(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("modules", []), list)


def _watch(folder: str) -> None:
    if _written(folder) > _MOST_WRITTEN:
        raise WorkerError(f"its files have more than {_MOST_WRITTEN:,} bytes.")


def _written(folder: str) -> int:
    """Return the bytes of the files in a folder, which another process may change meanwhile."""
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(path, name)).st_blocks * 512
    return size
