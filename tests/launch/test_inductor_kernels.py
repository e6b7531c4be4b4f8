"""Kernels that Inductor generated for a GPU that is not there, through every entry point."""

import copy
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernellab
from kernellab.cli.user_code import kernels_in
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import ArgumentError
from kernellab.magics.tile_cell import CompileOptions, generated_call
from kernellab.triton_api import JITFunction
from tests.support import versions
from tests.support.inductor_kernels import FUNCTIONS, generate

pytestmark = pytest.mark.slow  # Inductor takes ten seconds to generate the kernels.

_GIVEN: dict[str, tuple[Any, ...]] = {
    "pointwise": (1000,),
    "half": (407,),
    "transposed": (300, 200),
    "embedding": (17, 33) if versions.TILES_GATHERS_BY_ROW else (561,),
    "reduction": (32, 5000),
    "softmax": (64, 1000),
    "wide_softmax": (4, 5000),
    "total": (1, 700),
    "running": (1, 10_000),
}
"""What the generated code gives after the tensors: how many of each axis there are."""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    """The generated modules, imported as a user does who has no GPU."""
    with kernellab.interpreted(answers="gpu"):
        yield {
            name: _imported(name, path)
            for name, path in generate(tmp_path_factory.mktemp("generated")).items()
        }


def _imported(name: str, path: Path) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(f"generated_{name}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _kernel(modules: dict[str, ModuleType], name: str) -> Any:
    (kernel,) = (
        one for one in kernels_in(modules[name]).values() if not isinstance(one, JITFunction)
    )
    return kernel


def _launch(name: str) -> tuple[torch.Tensor, torch.Tensor, tuple[Any, ...]]:
    """What eager torch gives, an empty result, and the arguments of the kernel."""
    function, args = FUNCTIONS[name]
    expected = function(*args)
    result = torch.zeros_like(expected)
    scratch = [torch.zeros(4096, dtype=torch.uint8)] if name == "running" else []
    return expected, result, (*args, result, *scratch, *_GIVEN[name])


def test_a_cell_compiles_one_with_its_own_constants(modules) -> None:
    kernel = _kernel(modules, "pointwise")
    plain, call, target = generated_call(kernel, CompileOptions(DEFAULT_TARGET, None, {}, {}))
    assert call.specialization.constants[(4,)] == kernel.configs[0].kwargs["XBLOCK"]
    assert call.specialization.signature["in_ptr0"] == "*fp32"
    assert (plain.__name__, target.name) == ("triton_poi_fused_0", "sm_90")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_eager_torch(modules, name) -> None:
    expected, result, args = _launch(name)
    run = kernellab.run(_kernel(modules, name), None, *args)
    assert run.device == "interpreter"
    torch.testing.assert_close(result, expected, atol=2e-4, rtol=2e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_is_equal_to_eager_torch(modules, name) -> None:
    _, _, args = _launch(name)
    function, inputs = FUNCTIONS[name]
    launch = kernellab.bind(_kernel(modules, name), None, *args)
    found = kernellab.equal(launch, lambda: function(*inputs))
    if name == "running":  # its programs exchange the bits of floats
        assert found.verdict == "not decided"
    else:
        assert found.verdict == "equal", found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_compiled_is_what_inductor_compiles(modules, name, monkeypatch) -> None:
    kernel = _kernel(modules, name)
    # Triton's cache would give the code of another folder's file.
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    config, meta = kernel.configs[0], kernel.triton_meta
    theirs = triton.compile(
        ASTSource(
            kernel.fn, meta["signature"], {**meta["constants"], **config.kwargs}, meta["configs"][0]
        ),
        target=GPUTarget("cuda", 90, 32),
        options={
            "num_warps": config.num_warps,
            "num_stages": config.num_stages,
            "debug": True,
            "sanitize_overflow": False,
        },
    )
    types_alone = kernellab.compile(kernel, record="stages")
    bound = kernellab.compile(kernel, *_launch(name)[2], record="stages")
    for ours in (types_alone, bound):
        assert isinstance(ours, Compilation)
        assert (ours.target.name, ours.stages["ptx"].text) == ("sm_90", theirs.asm["ptx"])


def test_each_entry_point_takes_one(modules) -> None:
    kernel = _kernel(modules, "softmax")
    expected, result, args = _launch("softmax")
    report = kernellab.check(kernel, None, *args, expect={"out_ptr2": expected})
    assert not report.findings, str(report)
    assert kernellab.trace(kernel, None, *args).facts.grid == (64, 1, 1)
    costs = kernellab.accesses(kernel, None, *args)
    assert sum(one.sectors for one in costs) == 2 * 64 * 1000 // 8
    assert kernellab.bisect(kernel, (64,), *args).label is None
    compilation: Any = kernellab.compile(kernel, target="sm_80", num_warps=2)
    assert compilation.layouts()["tmp0"][0].shape == (1, 1024)
    assert "triton_helpers.max2" in str(compilation.explore())
    assert not result.any()  # all of them work on copies


def test_a_wrong_index_is_found_in_a_gather(modules) -> None:
    index, weight = torch.tensor([3, 99] + [0] * 15), torch.randn(50, 33)
    report = kernellab.check(
        _kernel(modules, "embedding"), None, index, weight, torch.empty(17, 33),
        *_GIVEN["embedding"],
    )  # fmt: skip
    assert {one.kind for one in report.findings} == {"failed-assertion", "out-of-bounds"}
    position: Any = report.findings[0].position
    assert position.file == modules["embedding"].__file__


def test_a_sweep_tries_inductors_configs(modules) -> None:
    kernel = _kernel(modules, "pointwise")
    _, _, args = _launch("pointwise")
    tuning = kernellab.tune(kernel, None, *args, check=False, workers=1)
    tried = [dict(one.candidate.constants) for one in tuning.trials]
    assert tried == [one.kwargs for one in kernel.configs]
    assert kernellab.tunings(kernel)[0].kernel == tuning.kernel


def test_a_grid_may_be_given_and_another_kernel_needs_one(modules, raised) -> None:
    expected, result, args = _launch("reduction")
    kernellab.run(_kernel(modules, "reduction"), (16,), *args)
    torch.testing.assert_close(result[:16], expected[:16], atol=1e-3, rtol=1e-4)
    raised(
        kernellab.errors.GridError, kernellab.run, _kernel(modules, "reduction").fn, None, *args,
        XBLOCK=1, R0_BLOCK=1024,
    )  # fmt: skip


def test_a_kernel_whose_source_stayed_elsewhere_is_refused(modules, raised) -> None:
    kernel = _kernel(modules, "half")
    kernel = copy.copy(kernel)  # as it is made of what came out of another process
    kernel.fn = copy.copy(kernel.fn)
    kernel.fn.fn = None
    raised(ArgumentError, kernellab.compile, kernel)
