"""Kernels that compile in a confined process are the same here as those that compile here."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.compiler.targets import parse_target
from kernellab.errors import KernelLabError
from kernellab.judging.code import PackedKernel, SourcePart, Texts, definitions
from kernellab.judging.submissions import Submission, submit
from kernellab.judging.worker import wait_for_worker
from kernellab.triton_api.kernel_contents import pack
from tests.kernels.asynchronous import TILES, launched

TARGET = parse_target("sm_90")


@triton.jit
def doubled(x):
    return x + x


@triton.jit
def twice(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, doubled(tl.load(x_ptr + offsets, mask=mask)), mask=mask)


@pytest.fixture(scope="module", autouse=True)
def _worker() -> None:
    wait_for_worker()


def launch(n: int = 100, block: int = 64) -> dict[str, Any]:
    return {"x_ptr": torch.randn(n), "z_ptr": torch.zeros(n), "n": n, "BLOCK": block}


def compiled(kernel: Any, arguments: dict[str, Any], record: str = "stages") -> Any:
    return kernellab.compile(kernel, **arguments, target=TARGET, record=record)


def submitted(*launches: dict[str, Any], source: Any = twice, **options: Any) -> Submission:
    code = PackedKernel(pack(source))
    return submit(code, launches or [launch()], TARGET, seconds=60, **options)


def test_it_compiles_to_the_same_machine_code() -> None:
    given, arguments = submitted(launch()).kernel, launch()
    for stage in ("ttgir", "ptx"):
        here, there = (compiled(kernel, arguments).stages[stage] for kernel in (given, twice))
        assert here.text.count("\n") == there.text.count("\n") > 10
    resources = [compiled(kernel, arguments, "passes").resources for kernel in (given, twice)]
    assert resources[0] == resources[1]


def test_it_runs_and_a_fault_has_the_line_of_the_helper() -> None:
    arguments = launch()
    kernel = submitted(arguments).kernel
    kernellab.run(kernel, (2,), **arguments)
    assert torch.equal(arguments["z_ptr"], 2 * arguments["x_ptr"])
    (finding,) = kernellab.check(kernel, (2,), **arguments, expect={"z_ptr": arguments["x_ptr"]})
    assert finding.position is not None
    assert (finding.kind, finding.position.file) == ("wrong-result", __file__)


@pytest.mark.parametrize("gluon", [False, True], ids=["Triton", "Gluon"])
def test_it_is_traced_with_the_variables_of_its_source(gluon: bool) -> None:
    source, given, _ = launched("tma_copies")
    arguments = dict(zip(source.arg_names, (*given, TILES), strict=True))
    if not gluon:
        source, arguments = twice, launch()
    kernel = submitted(arguments, source=source, debug_info=True).kernel
    trace = kernellab.trace(kernel, (2,), **arguments)
    plain = kernellab.trace(source, (2,), **arguments)
    assert [step.line for step in trace] == [step.line for step in plain]
    assert list(trace.at(trace[-1])) == list(plain.at(plain[-1]))


def test_arguments_without_a_module_are_an_error(messages) -> None:
    kernel = submitted(launch(100)).kernel
    with pytest.raises(KernelLabError, match="twice") as refused:
        kernellab.check(kernel, (2,), **launch(100, block=32))
    assert refused.value == messages


def test_what_is_not_a_kernel_is_described_and_what_raises_is_a_problem() -> None:
    def of(text: str) -> Submission:
        code = Texts((SourcePart("<cell>", text),), "kernel")
        return submit(code, [launch()], TARGET, seconds=60)

    assert "int" in of("kernel = 5").instead
    problem: Any = of("raise ValueError('no')").problem
    assert problem.what == "the code raises ValueError: no"


def test_a_cell_above_gives_its_definitions_only() -> None:
    text = "import os\nprint(1)\nx = f()\nEPS: float = 1e-5\n%magic\ndef g(): pass\n"
    kept = [type(node).__name__ for node in definitions(text)]
    assert kept == ["Import", "AnnAssign", "FunctionDef"]
    assert definitions("this is not Python") == []


def test_each_specialization_has_its_module() -> None:
    """A size that is a multiple of 16 and one that is not differ in what is promised of it."""
    kernel = submitted(launch(96), launch(100)).kernel
    for n, promises in ((96, 3), (100, 2)):
        made = compiled(kernel, launch(n))
        entry = next(line for line in made.stages["ttir"].text.splitlines() if "tt.func" in line)
        assert entry.count("tt.divisibility") == promises
