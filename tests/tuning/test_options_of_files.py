"""What a saved sweep may say of a config reaches no command line, names no file, and is not run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kernellab
from kernellab import triton_api
from kernellab.errors import ArchiveError, ArgumentError, CompileError
from tests.kernels.tuned import double
from tests.support import sweeps
from tests.support.source_files import ROOT

SWEEP = ROOT / "notebooks/recorded/tuning_h200_vector_add.json"

Change = Callable[[dict[str, Any]], Any]


def changed(folder: Path, change: Change, sweep: Path = SWEEP) -> Path:
    data = json.loads(sweep.read_text())
    change(data["tunings"][0])
    file = folder / "sweep.json"
    file.write_text(json.dumps(data))
    return file


REFUSED: list[tuple[str, Any]] = [
    ("ptx_options", "-optf /etc/passwd"),
    ("ptx_options", "--options-file=/etc/passwd"),
    ("ptx_options", "-O3 -o /tmp/there"),
    ("ptx_options", "-O3 --output-file /tmp/there"),
    ("ptx_options", "-O3;touch x"),
    ("ptx_options", "-O3x"),
    ("ptx_options", "/etc/passwd"),
    ("ptx_options", ["-O3"]),
    ("ptx_options", 3),
    ("ptx_options", "-v " * 1000 + "-optf x"),
    ("ir_override", "/etc/passwd"),
    ("extern_libs", {"dict": [["libdevice", "/etc/passwd"]]}),
    ("instrumentation_mode", "consan"),
    ("arch", "sm90 -optf x"),
    ("backend_name", "x"),
    ("ptx_version", "83"),
    ("num_warps", "4"),
    ("num_warps", [4]),
    ("num_stages", 2.5),
    ("debug", "yes"),
    ("schedule_hint", "a\nb"),
    ("supported_fp8_dtypes", ["../x"]),
    ("default_dot_input_precision", {"tuple": ["ieee"]}),
    ("unknown", 1),
    ("", 1),
    ("-optf", "x"),
    ("__class__", "x"),
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_options_are_of_a_list(tmp_path: Path, name: str, value: Any) -> None:
    def set_option(sweep: dict[str, Any]) -> None:
        sweep["trials"][0]["options"][name] = value

    with pytest.raises(ArchiveError) as caught:
        kernellab.load(changed(tmp_path, set_option))
    assert f"tunings[0].trials[0].options.{name}" in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"num_warps": 8, "num_stages": 3, "num_ctas": 1, "maxnreg": 128},
        {"maxnreg": None, "enable_fp_fusion": False, "debug": True},
        {"ptx_options": "-O3 --maxrregcount=64 --fmad false -dlcm=ca"},
        {"waves_per_eu": 2, "matrix_instr_nonkdim": 16, "kpack": 2, "schedule_hint": "attention"},
    ],
)
def test_usual_options_are_read(tmp_path: Path, options: dict[str, Any]) -> None:
    file = changed(tmp_path, lambda sweep: sweep["trials"][0].update(options=options))
    assert kernellab.load(file).trials[0].candidate.options == options


@pytest.mark.parametrize(
    "text",
    [
        "tensordesc<fp16[64,64],{}>",
        "tensordesc<fp16[64,64],,{}>",
        "tensordesc<fp16[64,64],NVMMASharedLayout({})>",
        "tensordesc<fp16[64,64],NVMMASharedLayout(**{})>",
        "tensordesc<fp16[64,64],SwizzledSharedLayout(1,1,1,order=[{}])>",
        "tensordesc<fp16[64,64],[x for x in {}]>",
        "tensordesc<]{}[1],fp16>",
        "tensordesc<fp16[64],{}<",
        "tensordesc<fp16[64],{}",
        "*tensordesc<fp16[64],{}>",
        "{}",
    ],
)
@pytest.mark.parametrize("where", ["types", "own_types"])
def test_a_type_is_not_evaluated(tmp_path: Path, text: str, where: str) -> None:
    """Triton evaluates the layout of a descriptor's type, also of a sweep whose kernel is given."""
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r},'w').close()"
    with pytest.raises((ValueError, KeyError, IndexError)):
        triton_api.triton_type(text.format(code))
    assert not ran.exists()
    saved = sweeps.sweep(kernel="double").save(tmp_path / "made.json")

    def set_type(sweep: dict[str, Any]) -> None:
        (sweep if where == "types" else sweep["trials"][0])[where] = {"x_ptr": text.format(code)}

    opened = kernellab.load(changed(tmp_path, set_type, saved))
    with pytest.raises((ArgumentError, CompileError)):
        opened.with_kernel(double).compilation(opened.trials[0])
    assert not ran.exists()


def test_a_layout_of_a_type_is_read() -> None:
    text = "tensordesc<fp16[64,64],NVMMASharedLayout(128, 16, rank=2, cga_layout=[])>"
    assert "64" in str(triton_api.triton_type(text))
    assert os.sep not in text
