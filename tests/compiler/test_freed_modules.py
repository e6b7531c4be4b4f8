"""Triton's bindings free no module of MLIR: whoever has one made frees it."""

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
from tests.support.compiled import compiled

ELEMENTS = 128
ARGUMENTS = (torch.ones(ELEMENTS), torch.ones(ELEMENTS), torch.empty(ELEMENTS), ELEMENTS)
TYPES = ("*fp32", "*fp32", "*fp32", "i32")


def made(**steering: Any) -> Compilation:
    return compiled(basic.add, *TYPES, BLOCK=64, **steering)


def page(folder: Path) -> None:
    made().explore().to_html(folder / "page.html")


def refused(_: Path) -> None:
    with pytest.raises(kernellab.KernelLabError):
        kernellab.compile(faulty.bad_assembly, "*fp32", BLOCK=64, target="sm_90")


def launched(entry_point: Callable[..., Any], **how: Any) -> Callable[[Path], Any]:
    """A launch of a copy of the kernel: its code is made anew."""
    return lambda _: entry_point(triton.jit(basic.add.fn), (2,), *ARGUMENTS, BLOCK=64, **how)


JOBS: dict[str, Callable[[Path], Any]] = {
    "passes": lambda _: made(record="passes"),
    "stages": lambda _: made(record="stages"),
    "questions": lambda _: (made().layouts(), made().barriers(), made().remarks),
    "page": page,
    "refused": refused,
    "run": launched(kernellab.run),
    "a later stage": launched(kernellab.run, stage="ttgir"),
    "trace": launched(kernellab.trace),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", JOBS)
def test_no_module_stays(name, tmp_path, monkeypatch) -> None:
    modules: list[Any] = []

    def noted(make: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **keywords: Any) -> Any:
            modules.append(make(*arguments, **keywords))
            return modules[-1]

        return noting

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
