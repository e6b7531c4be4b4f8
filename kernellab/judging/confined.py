"""In the confined process: other people's code runs, and their kernel compiles to texts.

Nothing that this process says is believed where it matters: it answers with JSON, and the modules
in it are read, checked and run elsewhere.
"""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernellab import triton_api
from kernellab.common.python_texts import remember_source
from kernellab.compiler.specialization.binding import BoundCall, bind
from kernellab.errors import Diagnostic, KernelLabError
from kernellab.judging.code import Code, PackedKernel, Part, definitions
from kernellab.judging.confinement import end_on_process_calls
from kernellab.launch.tile_kernel import tile_kernels_in
from kernellab.records import Target
from kernellab.records.showing import described
from kernellab.triton_api.shipping import unpack

Call = Mapping[str, Any]
"""The arguments of a launch by parameter: numbers, and of a tensor its dtype alone."""


@dataclass(frozen=True)
class Request:
    """What a confined process is asked for.

    Attributes:
        code: other people's code.
        calls: the launches to compile the kernel for.
        target: the GPU to compile for.
        debug_info: whether to return the modules with debug records too, for stepping.
        sources: what the kernel's source is replaced by, one after the other, each for a variant of
            the kernel; without any, the kernel itself is compiled.
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
    except Exception as error:
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
    """Return what is answered for a variant of a kernel; None for one that is not a kernel."""
    try:
        return _described(triton_api.with_source(kernel, source), request)
    except Exception:  # of other people's Python, or of a source that is none
        return None


_LONGEST = 500
"""The most characters of an error, or of what there is in place of a kernel."""


def _raised(error: BaseException) -> dict[str, Any]:
    words = f"{type(error).__name__}: {error}"[:_LONGEST]
    return Diagnostic("error", "code-error", f"the code raises {words}").to_json()


def _json(**contents: Any) -> bytes:
    return json.dumps(contents).encode()


def _kernel_of(request: Request) -> Any:
    code = request.code
    if isinstance(code, PackedKernel):
        return unpack(code.content)
    scope: dict[str, Any] = {"__name__": "__main__"}
    for part in code.parts:
        _run(part, request.target, scope)
    return scope.get(code.name)


def _run(part: Part, target: Target, scope: dict[str, Any]) -> None:
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
    if request.debug_info and not kernel.is_gluon():
        text, records = triton_api.front_end_text(*key, debug_info=True)
        made |= {"debug_text": text, "records": triton_api.records_as_json(records)}
    return made


def _options(kernel: Any) -> Mapping[str, Any]:
    """Return options with which Triton keeps a kernel's assertions, if it has any."""
    if triton_api.made_of(kernel).has_assertions:
        return {"debug": True, "sanitize_overflow": False}
    return {}


def _stand_in(value: Any) -> Any:
    return torch.empty(1, dtype=value) if isinstance(value, torch.dtype) else value


def calls_of(launches: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Return what is said of launches to a confined process: no tensor, and no contents of any."""
    return [
        {
            name: value.dtype if isinstance(value, torch.Tensor) else value
            for name, value in launch.items()
        }
        for launch in launches
    ]
