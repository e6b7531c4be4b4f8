"""Triton's bindings free no module of MLIR: whoever has one made frees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.compiler.code_generator
from triton._C import libtriton

import kernellab
from kernellab.compiler.compilations import Compilation
from tests.kernels import basic, faulty

ELEMENTS = 128
ARGUMENTS = (torch.ones(ELEMENTS), torch.ones(ELEMENTS), torch.empty(ELEMENTS), ELEMENTS)
TYPES = ("*fp32", "*fp32", "*fp32", "i32")


def compiled(**steering: Any) -> Compilation:
    made = kernellab.compile(basic.add, *TYPES, BLOCK=64, target="sm_90", **steering)
    assert isinstance(made, Compilation)
    return made


def page(folder: Path) -> None:
    compiled().explore().to_html(folder / "page.html")


def refused(_: Path) -> None:
    """The assembler refuses what the passes made."""
    with pytest.raises(kernellab.KernelLabError):
        kernellab.compile(faulty.bad_assembly, "*fp32", BLOCK=64, target="sm_90")


def launched(entry_point: Callable[..., Any], **how: Any) -> Callable[[Path], Any]:
    """A launch of a copy of the kernel: its code is made anew."""
    return lambda _: entry_point(triton.jit(basic.add.fn), (2,), *ARGUMENTS, BLOCK=64, **how)


JOBS: dict[str, Callable[[Path], Any]] = {
    "passes": lambda _: compiled(record="passes"),
    "stages": lambda _: compiled(record="stages"),
    "questions": lambda _: (compiled().layouts(), compiled().barriers(), compiled().remarks),
    "page": page,
    "refused": refused,
    "run": launched(kernellab.run),
    "a later stage": launched(kernellab.run, stage="ttgir"),
    "trace": launched(kernellab.trace),
}


@pytest.mark.parametrize("name", JOBS)
def test_no_module_stays(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules: list[Any] = []

    def noted(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **keywords: Any) -> Any:
            modules.append(make(*arguments, **keywords))
            return modules[-1]

        return made

    for place, maker in (
        (libtriton.ir, "parse_mlir_module"),
        (triton.compiler.code_generator, "ast_to_ttir"),
    ):
        monkeypatch.setattr(place, maker, noted(getattr(place, maker)))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    JOBS[name](tmp_path)
    assert modules
    for module in modules:
        operations: list[Any] = []
        module.walk(operations.append)
        assert len(operations) == 1  # itself
