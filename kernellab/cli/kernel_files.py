"""Kernels out of Python files, as the command line names them: FILE::KERNEL."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from kernellab.errors import KernelLabError, SourcePosition, nearest, suggestion
from kernellab.torch_api.inductor import is_inductor_kernel
from kernellab.triton_api import Autotuner, Heuristics, JITFunction


def load_kernel(place: str) -> Any:
    """The kernel that FILE::KERNEL names; FILE alone will do where the file defines one kernel.

    The file is run, as an import would.

    Raises:
        KernelLabError: there is no such file, it cannot be run, or it defines no such kernel.
    """
    path, _, name = place.partition("::")
    file = Path(path)
    if not os.path.isfile(file):  # which raises nothing, as Path.is_file may
        here = (
            sorted(str(other) for other in file.parent.glob("*.py"))
            if os.path.isdir(file.parent)
            else []
        )
        raise KernelLabError(f"There is no file {path!r}.", advice=nearest(path, here))
    kernels = kernels_in(_run_file(file))
    if not kernels:
        raise KernelLabError(
            f"{path} defines no kernel.",
            advice="Put @triton.jit (or @gluon.jit) above the function.",
        )
    if not name and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name not in kernels:
        problem = (
            f"{path} has no kernel {name!r}." if name else f"{path} has {len(kernels)} kernels."
        )
        advice = suggestion(name, kernels, "It defines")
        if not name:
            advice = f"Name one: {path}::{next(iter(kernels))}. {advice}"
        raise KernelLabError(problem, advice=advice)
    return kernels[name]


def kernels_in(module: ModuleType) -> dict[str, Any]:
    """The kernels, autotuned ones included, that a module's own code defines, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if (isinstance(value, JITFunction | Autotuner | Heuristics) or is_inductor_kernel(value))
        and _function(value).__module__ == module.__name__
    }


def _function(kernel: Any) -> Any:
    """The Python function under the decorators."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def _run_file(file: Path) -> ModuleType:
    # A separate name: a file called json.py must not replace that module.
    name = f"kernels_of_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise KernelLabError(f"{file} is not a Python file.", advice="Its name has to end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # As `python FILE` does, so that the file finds its neighbors;
    # not for longer, so that no one else does.
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        before = (error.text or "")[: max((error.offset or 0) - 1, 0)]
        column = len(before.encode()) + 1 if error.offset else 0
        position = SourcePosition(error.filename or str(file), error.lineno or 1, column)
        raise KernelLabError(
            f"{file} is not valid Python: {error.msg}.", position=position
        ) from error
    except Exception as error:
        raise KernelLabError(
            f"{file} cannot be run: {type(error).__name__}: {error}",
            position=_place_in(file, error),
        ) from error
    finally:
        sys.path.remove(folder)
    return module


def _place_in(file: Path, error: Exception) -> SourcePosition | None:
    """The innermost line of `file` that the error passed through."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename) == file.resolve()
    ]
    if not frames or frames[-1].lineno is None:
        return None
    return SourcePosition(str(file), frames[-1].lineno)
