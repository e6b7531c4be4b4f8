"""What a saved sweep keeps of its kernel: where it stood, and a text that makes it again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
from syrupy.assertion import SnapshotAssertion

import kernellab
from benchmarks.kernels import attention
from kernellab.cli.demo.kernels import matmul, vector_add
from kernellab.common.saved_files import SavedData
from kernellab.compiler.compare import without_locations
from kernellab.errors import ArchiveError, ArgumentError
from kernellab.tuning.files import from_json
from kernellab.tuning.kernel_source import KernelSource, differs, source_of
from kernellab.viz.sweeps import sweeps_data
from tests.kernels.tuned import applies, double
from tests.kernels.tuned import scaled as kernels_scaled
from tests.support.source_files import ROOT

RECORDED = ROOT / "notebooks/recorded/tuning_h200_matmul.json"
TYPES = ("*fp32:16", "*fp32:16", "i32")


@triton.jit
def tripled(x):
    return kernels_scaled(x, 3)


def swept(kernel: Any, *args: str, **space: list[Any]) -> kernellab.Tuning:
    space = space or {"BLOCK": [64, 128]}
    return kernellab.tune(kernel, None, *args, space=space, cache=False, target="sm_90")


def kept(subject: Any) -> KernelSource:
    """The source of a sweep, or of a kernel, which is known."""
    found = subject.source if isinstance(subject, kernellab.Tuning) else source_of(subject)
    assert found is not None
    return found


def ttgir(tuning: kernellab.Tuning, number: int) -> str:
    return without_locations(tuning.compilation(number).stages["ttgir"].text)


@pytest.mark.slow
def test_a_saved_sweep_opens_its_configs_by_itself(tmp_path, messages: SnapshotAssertion) -> None:
    sweep = swept(double, *TYPES)
    again = kernellab.Tuning.load(sweep.save(tmp_path / "sweep.json"))
    assert kept(again) == kept(sweep)
    assert (kept(again).module, kept(again).file) == (
        "tests.kernels.tuned",
        "tests/kernels/tuned.py",
    )
    line = (ROOT / kept(again).file).read_text().splitlines()[kept(again).line - 1]
    assert line.startswith("def double(")
    with pytest.raises(ArgumentError) as refused:
        again.compilation(1)
    assert refused.value == messages
    assert "from tests.kernels.tuned import double; tuning.with_kernel(double)" in str(
        refused.value
    )
    opened = again.with_kernel(run_source=True)
    assert ttgir(opened, 1) == ttgir(sweep, 1)
    assert opened.compilation(1).resources == sweep.compilation(1).resources
    assert "scaled" in opened.compilation(1).stages["source"].text


def test_a_kernel_made_of_its_text_computes_the_same(tmp_path) -> None:
    x, z = torch.arange(100.0), torch.zeros(100)
    kernellab.run(kept(double).kernel_again(), (2,), x, z, 100, BLOCK=64)
    assert torch.equal(z, 2 * x)


@pytest.mark.parametrize("kernel", [matmul, attention, vector_add, double, applies])
def test_the_text_of_a_text_is_the_same(kernel) -> None:
    source = kept(kernel)
    assert source.is_whole
    assert kept(source.kernel_again()).text == source.text


def test_a_function_among_the_constants_is_kept(tmp_path) -> None:
    sweep = swept(applies, *TYPES, FUNCTION=[tripled], BLOCK=[64])
    again = kernellab.Tuning.load(sweep.save(tmp_path / "sweep.json")).with_kernel(run_source=True)
    assert ttgir(again, 0) == ttgir(sweep, 0)


def test_a_file_without_a_source_says_so_and_what_to_do(messages: SnapshotAssertion) -> None:
    old = json.loads(RECORDED.read_text())
    old["tunings"][0].pop("source", None)
    loaded = from_json(SavedData(old["tunings"][0]), kernellab.Tuning)
    assert loaded.source is None
    with pytest.raises(ArgumentError) as refused:
        loaded.with_kernel(run_source=True)
    assert refused.value == messages
    (sweep,) = sweeps_data("matmul", "times", [loaded], [], []).sweeps
    assert sweep.how_to_open == messages
    assert "tuning.with_kernel(matmul).show()" in sweep.how_to_open
    (sweep,) = sweeps_data("", "times", [loaded.with_kernel(matmul)], [], []).sweeps
    assert sweep.how_to_open == ""


def test_another_source_than_the_swept_one_is_said(tmp_path, messages: SnapshotAssertion) -> None:
    sweep = swept(double, *TYPES)
    text = kept(sweep).text.replace("constexpr(2.0)", "constexpr(3.0)")
    changed = replace(sweep, source=replace(kept(sweep), text=text), live=None)
    assert differs(kept(sweep), kept(changed))
    assert changed.with_kernel(double).notes[0] == messages
    assert not replace(sweep, live=None).with_kernel(double).notes
    assert "double" in sweep.merged(changed).notes[0]
    assert sweep.merged(changed).notes[0] == messages
    comment = replace(
        kept(sweep), text=f"# so\n{kept(sweep).text}".replace("z = 2 x", "twice"), line=7
    )
    assert not differs(kept(sweep), comment)


def test_a_damaged_source_is_refused(messages: SnapshotAssertion) -> None:
    source = kept(double)
    for text in ("def double(:", "double = 3", "import triton_nothing"):
        with pytest.raises(ArchiveError) as refused:
            replace(source, text=text).kernel_again()
        assert refused.value == messages
    # A text that Python gives up reading.
    assert differs(source, replace(source, text=f"x = {'-' * 100_000}1"))
