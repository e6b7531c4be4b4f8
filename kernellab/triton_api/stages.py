"""What a backend of Triton compiles with: its stages, the modules that they start from,
and the context of those.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from triton._C import libtriton
from triton.backends.compiler import Language

from kernellab.common.system import temporary_folder
from kernellab.records import Target
from kernellab.triton_api.assembling import careful_assembler
from kernellab.triton_api.targets import backend_for, gpu_target

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
    """The module of an MLIR text, which may abort the process where no compiler made it.

    Args:
        file_name: of the passing file that MLIR reads it from, which its messages name.

    Raises:
        RuntimeError: MLIR cannot read it; it prints why.
    """
    context = new_context(backend)
    with temporary_folder() as folder:
        file = Path(folder, file_name)
        file.write_text(text, encoding="utf-8")
        module = libtriton.ir.parse_mlir_module(str(file), context)
    module.context = context  # which must live as long as the module does
    return module


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
    """The module that Triton's front end makes of an `ASTSource`, before any pass.

    Raises:
        Exception: whatever the front end raises; see `translated_errors`.
    """
    backend = backend_for(target)
    return source.make_ir(
        gpu_target(target),
        parsed,
        backend.get_codegen_implementation(parsed),
        backend.get_module_map(),
        new_context(backend),
    )
