"""Counters of Nsight Compute beside predictions; a launch of 1 Mi elements, recorded on an H200."""

from typing import Any

import pytest
import torch

import kernellab
from kernellab.cli.demo.kernels import vector_add
from kernellab.errors import OptionError, ProfileError
from kernellab.profiling.profiles.nsight import Counters
from kernellab.profiling.profiles.nsight_counters import joined
from tests.support.source_files import ROOT

SIZE = 1 << 20
DATA = ROOT / "benchmarks/data"


def counted(**asked: Any) -> Counters:
    x, y, z = (torch.zeros(SIZE) for _ in range(3))
    return kernellab.counters(
        vector_add, (1024,), x, y, z, SIZE, BLOCK=1024, target="sm_90", **asked
    )


@pytest.fixture(scope="module")
def predicted() -> Counters:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", "")
        return counted()


def test_without_ncu_predictions_stand_alone(predicted, messages) -> None:
    assert predicted.notes[0] == messages
    assert all(one.measured is None for one in predicted)
    assert predicted["dram__bytes_read.sum"].predicted == 8 * SIZE
    assert "predicted alone" in str(predicted)


def test_predictions_are_near_what_an_h200_counted(predicted: Counters) -> None:
    pages = [(DATA / f"counters_h200_{name}.csv").read_text() for name in ("raw", "source")]
    found = joined(predicted, *pages)
    assert (found.gpu, found["smsp__inst_executed.sum"].measured) == ("NVIDIA H200", 167_936)
    assert found["smsp__inst_executed.sum"].ratio == pytest.approx(1, rel=0.03)
    assert found["dram__bytes_read.sum"].ratio == pytest.approx(1, rel=0.01)
    exact = [
        found[f"launch__{name}"]
        for name in ("grid_size", "occupancy_limit_registers", "occupancy_limit_warps")
    ]
    assert [one.measured for one in exact] == [one.predicted for one in exact]
    assert found.lines is not None
    assert sum(one.executed or 0 for one in found.lines) == 167_936
    assert set(found.table()["name"]) == {one.name for one in predicted}
    html = found._repr_mimebundle_()["text/html"]
    assert "167,936" in html
    assert "NVIDIA H200" in html


def test_a_metric_that_ncu_does_not_know(monkeypatch, tmp_path, raised) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text(_PRINTS.format(folder=DATA))
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert counted(metrics=["launch__grid_size"])["launch__grid_size"].measured == 1024
    raised(ProfileError, counted, metrics=["launch__grid_size", "nonsense.sum"])


_PRINTS = """\
#!/bin/sh
case "$*" in
  *"--page source"*) cat {folder}/counters_h200_source.csv ;;
  *"--page raw"*) cat {folder}/counters_h200_raw.csv ;;
  *) while [ "$1" != --export ]; do shift; done; touch "$2" ;;
esac
"""


def test_a_page_without_a_launch(predicted: Counters, raised) -> None:
    raised(ProfileError, joined, predicted, "==PROF== nothing", "", match="vector_add")


def test_what_ncu_refuses_is_told(monkeypatch, tmp_path, raised) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text("#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM'\nexit 1\n")
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    raised(ProfileError, counted, metrics=["smsp__inst_executed.sum"], match="GPU")
    ncu.write_text("#!/bin/sh\necho 'no such device' >&2\nexit 9\n")
    raised(ProfileError, counted, metrics="smsp__inst_executed.sum")


def test_metrics_that_are_no_names(raised) -> None:
    raised(OptionError, counted, metrics=["a,b"])


def test_a_report_is_opened_by_ncu_alone(tmp_path, monkeypatch, raised) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without ncu
    report = tmp_path / "profile.ncu-rep"
    report.write_bytes(b"NVR\x00")
    raised(ProfileError, kernellab.load, report)
