"""The latest compilations of a kernel, pass by pass: whatever shows one compiles it once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from kernellab import triton_api
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.records import Compilation, Target
from kernellab.triton_api.shipping import content_of

_KEPT = "_kernellab_compilations"
"""Kept on the kernel itself, which they go with."""

_MOST = 8
"""Compilations of one kernel that are kept: those that were asked for last."""


@dataclass(frozen=True)
class _Asked:
    """What a compilation depends on, besides the target's name."""

    made_of: Hashable
    """The kernel, and functions that it is given as constants; or the kernel's file and content."""
    specialization: Hashable
    target: Target
    options: Hashable
    compiler: str


_of_contents: WeakValueDictionary[_Asked, Compilation] = WeakValueDictionary()
"""Those that are still somewhere, by what the kernel's file and source are: a cell that is run
again makes another kernel of the same.
"""


def compiled_from(file: str) -> list[Compilation]:
    """The compilations that are still somewhere of kernels of a file, or of a cell. Who holds them
    while the cell is run again spares it compiling what has not changed.
    """
    known = list(_of_contents.items())
    return [
        compilation
        for key, compilation in known
        if isinstance(key.made_of, tuple) and key.made_of[0] == file
    ]


def compile_kept(kernel: Any, call: BoundCall, target: Target) -> Compilation:
    """The compilation of a kernel with its passes recorded: the one that was made before, as long
    as nothing that it depends on is another.

    Args:
        kernel: the plain JIT function.
        call, target: what it is compiled for.

    Raises:
        CompileError: as `compile_bound`.
        KernelLabError: a global that the kernel reads has changed since it was compiled.
    """
    given = tuple(triton_api.functions_within(call.specialization.constants.values()))
    key = _Asked(
        tuple(map(triton_api.check_globals, (kernel, *given))),
        repr(call.specialization),
        target,
        repr(sorted(call.options.items())),
        triton_api.compiler_key(target),
    )
    kept: dict[_Asked, Compilation] = vars(kernel).setdefault(_KEPT, {})
    compilation = kept.pop(key, None) or _of_same_content(kernel, call, key, bool(given))
    kept[key] = compilation  # as the latest one
    while len(kept) > _MOST:
        del kept[next(iter(kept))]
    return compilation


def _of_same_content(
    kernel: Any, call: BoundCall, known_by: _Asked, has_functions: bool
) -> Compilation:
    """The compilation of another kernel of the same file, source and globals; else a new one."""
    if has_functions:  # which are constants, and may be others of one name
        return compile_bound(kernel, call, known_by.target, record="passes")
    content = content_of(kernel)
    key = replace(
        known_by, made_of=(triton_api.definition_of(kernel).file, kernel.__name__, content)
    )
    compilation = _of_contents.get(key)
    if compilation is None:
        compilation = compile_bound(kernel, call, known_by.target, record="passes")
        _of_contents[key] = compilation
    return compilation


def keeps(kernel: Any, compilation: Compilation) -> bool:
    """Whether a compilation is one that `compile_kept` made of this very kernel."""
    kept: dict[_Asked, Compilation] = vars(kernel).get(_KEPT, {})
    return any(known is compilation for known in kept.values())
