"""The stages as far as they are MLIR's: their passes listed without running any,
or run without LLVM.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from triton._C import libtriton
from triton.backends.compiler import Language

from kernellab.records import Specialization, Target
from kernellab.triton_api.compiling import make_source, options_of_launch
from kernellab.triton_api.diagnostics import translated_errors
from kernellab.triton_api.machine_faults import translated_machine_errors
from kernellab.triton_api.option_values import check_options
from kernellab.triton_api.patches import (
    LlvmReached,
    Session,
    pass_name,
    patched,
)
from kernellab.triton_api.stages import (
    StageFunction,
    freed_after,
    front_end_module,
    read_module,
    stage_functions,
)
from kernellab.triton_api.targets import backend_for
from kernellab.triton_api.watching import PassCall, Watcher

_MLIR_STAGES = ("ttir", "glir", "ttgir", "llir")
"""The stages that run passes of MLIR, in the order of the pipeline."""


@functools.cache
def pass_adders(backend: str) -> Mapping[str, str]:
    """Every pass that this Triton's bindings offer for a backend, "cuda" or "hip":
    its name -> where the function is that adds it.
    """
    texts: dict[str, str] = {}
    waiting = [("amd.passes" if backend == "hip" else "nvidia.passes"), "passes"]
    while waiting:
        path = waiting.pop(0)
        namespace = functools.reduce(getattr, path.split("."), libtriton)
        for name in dir(namespace):
            if isinstance(getattr(namespace, name), ModuleType):
                waiting.append(f"{path}.{name}")
            elif name.startswith("add_"):
                texts.setdefault(pass_name(name), f"{path}.{name}")
    return texts


def list_passes(target: Target, options: Mapping[str, Any], gluon: bool = False) -> list[PassCall]:
    """The passes that each stage would run for a target, in order, without running any.

    Raises:
        OptionError: an option value that the target's backend refuses.
        MachineError: a tool or a folder that the backend needs is not there.
    """
    check_options(options, target)
    backend = backend_for(target)
    parsed = backend.parse_options(dict(options))
    session = Session(watcher=Watcher(), listing=True)
    with translated_machine_errors("The compiler cannot run"), ExitStack() as made:
        stages = stage_functions(backend, parsed, gluon)

        def smallest(_: Any) -> Any:
            return made.enter_context(freed_after(read_module(_SMALLEST_KERNEL, backend)))

        _run_mlir_stages(backend, stages, parsed, session, smallest, None)
    return session.listed


_SMALLEST_KERNEL = (
    "module { tt.func public @nothing() attributes {noinline = false} { tt.return } }"
)


def run_up_to_llvm(backend: Any, parsed: Any, gluon: bool, module: Any) -> None:
    """Run the stages on a module of the front end's until it is one of LLVM's dialect:
    what only cleans up after that, and LLVM itself, has nothing to say of the kernel.

    Args:
        backend, parsed: Triton's backend, and the options that it parsed.
        gluon: whether the kernel is one of Gluon's.
        module: it is changed.
    """
    session = Session(watcher=_UntilLowered(), mlir_only=True)
    stages = stage_functions(backend, parsed, gluon)
    _run_mlir_stages(backend, stages, parsed, session, lambda before: before, module)


def shared_bytes(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> int:
    """The shared memory that one program of a kernel takes, as the compiler allocates it:
    its passes up to the allocation, and nothing after.

    Raises:
        CompileError, OptionError: as for `triton_api.compile_kernel`.
    """
    launch_options = options_of_launch(kernel, options)
    check_options(launch_options, target)
    backend, source = backend_for(target), make_source(kernel, specialization)
    with translated_errors(kernel, target):
        parsed = backend.parse_options(launch_options)
        session = Session(watcher=_UntilLowered(itself=False), mlir_only=True)
        stages = stage_functions(backend, parsed, source.language == Language.GLUON)
        with freed_after(front_end_module(source, target, parsed)) as module:
            _run_mlir_stages(backend, stages, parsed, session, lambda before: before, module)
            return int(module.get_int_attr("ttg.shared") or 0)


class _UntilLowered(Watcher):
    """Lets no pass run after the one that makes the module one of LLVM's dialect;
    with `itself=False` not that one either.
    """

    def __init__(self, itself: bool = True) -> None:
        self._is_lowered = False
        self._itself = itself

    def wants(self, call: PassCall) -> bool:
        if self._is_lowered:
            return False
        self._is_lowered = call.name == "to_llvmir"
        return self._itself or not self._is_lowered


def _run_mlir_stages(
    backend: Any,
    stages: Mapping[str, StageFunction],
    parsed: Any,
    session: Session,
    module_for: Callable[[Any], Any],
    module: Any,
) -> None:
    """Run the stages as far as they are MLIR's, each on `module_for` what the one before made."""
    metadata = {**parsed.__dict__}
    with patched(backend, session):
        for name, make in stages.items():
            session.stage = name
            if name not in _MLIR_STAGES:
                return
            try:
                module = make(module_for(module), metadata)
            except LlvmReached:
                return
