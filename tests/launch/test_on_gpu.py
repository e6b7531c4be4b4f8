"""Launches with tensors on a GPU: Triton's own, and those on copies on the CPU."""

import io
import sys

import pytest
import torch

import kernellab
from tests.kernels import launched

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

N = 1000


def tensors() -> list[torch.Tensor]:
    x = torch.arange(float(N), device="cuda")
    return [x, torch.ones_like(x), torch.zeros_like(x)]


def test_what_does_not_fit_is_explained_also_without_a_tensor() -> None:
    with pytest.raises(kernellab.ArgumentError, match="add") as refused:
        kernellab.run(launched.add, (8,), BLOCK=128)
    assert refused.value.diagnostic.kind == "missing-arguments"


def test_check_runs_on_copies(messages) -> None:
    x, y, z = tensors()
    findings = kernellab.check(
        launched.add, (8,), x, y, z, N, BLOCK=128, outputs="z_ptr", expect={"z_ptr": x + y}
    )
    assert not findings
    assert findings.notes[0] == messages
    assert (z == 0).all()
    (finding,) = kernellab.check(launched.add, (8,), x, y, z, N + 8, BLOCK=128).of_kind(
        "out-of-bounds"
    )[:1]
    assert finding.argument == "x_ptr"


def test_trace_and_debug_run_on_copies(monkeypatch, capsys, messages) -> None:
    x, y, z = tensors()
    trace = kernellab.trace(launched.add, (8,), x, y, z, N, BLOCK=128)
    assert trace.notices[0] == messages
    assert (z == 0).all()
    kernellab.trace(launched.add, (8,), x, y, z, N, BLOCK=128, in_place=True)
    assert torch.equal(z, x + 1)
    z.zero_()
    monkeypatch.setattr(sys, "stdin", io.StringIO("c\n"))
    kernellab.debug(launched.add, (8,), x, y, z, N, BLOCK=128, in_place=True)
    assert capsys.readouterr().out == messages
    assert torch.equal(z, x + 1)


def test_accesses_and_bisect_run_on_copies(messages) -> None:
    x, y, z = tensors()
    counts = kernellab.accesses(launched.add, (8,), x, y, z, N, BLOCK=128)
    assert counts.notes[0] == messages
    bisection = kernellab.bisect(launched.add, (8,), x, y, z, N, BLOCK=128)
    assert bisection.label is None
    assert bisection.notes[0] == messages
    diagnosis = kernellab.diagnose(launched.add, x, y, z, N, BLOCK=128, grid=(8,))
    assert any("accesses ran the kernel on the CPU" in note for note in diagnosis.notes)
    assert (z == 0).all()


def test_options_of_the_interpreter_bring_a_launch_without_tensors_to_it(raised) -> None:
    raised(
        kernellab.OptionError, kernellab.run, launched.add, (8,), *tensors(), N, BLOCK=128,
        order="reversed",
    )  # fmt: skip
