"""Sweeps in files: what they hold, what they only name, what is refused, and unsafe options."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab import triton_api
from kernellab.common.system import cache_folder
from kernellab.errors import ArchiveError, ArgumentError, CompileError
from tests.kernels.tuned import applies, double
from tests.support import sweeps
from tests.support.pretended_gpu import pretended_gpu
from tests.support.source_files import ROOT

N = 96


def set_block(arguments):
    arguments["rows"].block_shape = [arguments["ROWS"], 64]


@triton.autotune(
    [triton.Config({"ROWS": rows}, num_warps=4, pre_hook=set_block) for rows in (16, 32)], key=["n"]
)
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["ROWS"] == 0})
@triton.jit
def doubled_rows(rows, z_ptr, n, ROWS: tl.constexpr, EVEN: tl.constexpr):
    first = tl.program_id(0) * ROWS
    x = rows.load([first, 0])
    places = (first + tl.arange(0, ROWS))[:, None] * 64 + tl.arange(0, 64)[None, :]
    if EVEN:
        tl.store(z_ptr + places, 2 * x)
    else:
        tl.store(z_ptr + places, 2 * x, mask=places < n * 64)


@pytest.mark.slow
def test_a_config_with_a_hook_a_descriptor_and_a_heuristic_is_the_same_from_a_file(
    tmp_path, raised
) -> None:
    x, z = torch.randn(80, 64), torch.zeros(80, 64)
    rows = TensorDescriptor.from_tensor(x, [1, 64])
    with pretended_gpu(lambda task: 1 / dict(task.values)["ROWS"]):
        sweep = kernellab.tune(
            doubled_rows, lambda meta: (triton.cdiv(80, meta["ROWS"]),), rows, z, 80,
            reference={"z_ptr": 2 * x},
        )  # fmt: skip
    assert not any(one.is_dropped for one in sweep.trials)
    assert sweep.key == {"n": 80}  # the autotuner's
    assert rows.block_shape == [1, 64]
    again = kernellab.Tuning.load(sweep.save(tmp_path / "rows.json"), kernel=doubled_rows)
    assert [one.types for one in again.trials] == [{}, {"rows": "tensordesc<fp32[32, 64]>"}]
    assert [one.constants for one in again.trials] == [{}, {"EVEN": False}]
    for number in (0, 1):
        ours, theirs = again.compilation(number), sweep.compilation(number)
        assert kinds_of(ours) == kinds_of(theirs)
        assert ours.specialization.constants == theirs.specialization.constants
    applied = again.apply()
    with kernellab.interpreted():
        applied[(3,)](rows, z, 80)
    assert torch.equal(z, 2 * x)
    assert rows.block_shape == [32, 64]
    plain = doubled_rows.fn.fn
    raised(
        ArgumentError, kernellab.Tuning.load(tmp_path / "rows.json").apply, plain, match="set_block"
    )
    both = again.merged(sweep)
    assert kinds_of(both.compilation(1))["rows"] == "tensordesc<fp32[32,64]>"


def kinds_of(compilation):
    """Each parameter's type; a space in a block's shape says nothing."""
    return {name: kind.replace(" ", "") for name, kind in compilation.specialization.signature.items()}  # fmt: skip


@triton.jit
def half(x):
    return x / 2


@pytest.mark.slow
def test_functions_among_constants_are_found_again_beside_the_kernel(tmp_path, raised) -> None:
    kinds = ("*fp32:16", "*fp32:16", "i32")
    sweep = kernellab.tune(applies, None, *kinds, FUNCTION=half, space={"BLOCK": [64]}, workers=1)
    file = sweep.save(tmp_path / "half.json")
    again = kernellab.Tuning.load(file)
    assert repr(again.constants["FUNCTION"]) == repr(half)
    assert again.save(tmp_path / "again.json").read_text() == file.read_text()
    raised(ArgumentError, again.compilation, 0, kernel=applies, match="FUNCTION")
    applies.fn.__globals__["half"] = half
    try:
        compiled = again.compilation(0, kernel=applies)
    finally:
        del applies.fn.__globals__["half"]
    assert compiled.resources == sweep.compilation(0).resources


@pytest.mark.slow
def test_another_function_among_the_constants_is_another_config_for_the_cache() -> None:
    def outcomes_kept_after(factor: int) -> int:
        @triton.jit
        def scale(x):
            return x * FACTOR

        FACTOR = tl.constexpr(factor)
        kinds = ("*fp32:16", "*fp32:16", "i32")
        kernellab.tune(applies, None, *kinds, FUNCTION=scale, space={"BLOCK": [64]}, workers=1)
        return len(list(cache_folder("tuning").rglob("*.json")))

    assert [outcomes_kept_after(factor) for factor in (2, 3, 2)] == [1, 2, 2]


def saved(tmp_path):
    kinds = ("*fp32:16", "*fp32:16", "i32")
    tuning = kernellab.tune(double, None, *kinds, space={"BLOCK": [64]}, workers=1)
    return tuning.save(tmp_path / "sweep.json")


@pytest.mark.parametrize(
    "text",
    [
        b"", b"\xff\xfe\x00", b"import triton\n", b'{"format":\n "kernel', b"[1, 2]",
        b'{"format": "kernellab.tuning", "version": 0}',
        b'{"format": "kernellab.tuning", "version": 2}',
        b'{"format": "kernellab.tuning", "version": 1}',
        b'{"format": "kernellab.tuning", "version": 1, "tunings": [{"kernel": "x"}]}',
        b'{"format": "kernellab.tuning", "version": 1, "tunings": 5}',
        b'{"format": "kernellab.tuning", "version": 1, "tunings": []}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_sweep_is_refused(tmp_path, text, raised) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(text)
    raised(ArchiveError, kernellab.Tuning.load, file)


def test_parts_that_are_none_are_named(tmp_path, raised) -> None:
    file = saved(tmp_path)
    data = json.loads(file.read_text())
    (one,) = data["tunings"]
    one["source"]["text"] = 5
    file.write_text(json.dumps(data))
    raised(ArchiveError, kernellab.Tuning.load, file)
    one["source"]["text"] = ""
    one["trials"][0]["constants"] = {"DTYPE": {"dtype": "fp17"}}
    file.write_text(json.dumps(data))
    raised(ArchiveError, kernellab.Tuning.load, file, match="DTYPE")


@pytest.mark.parametrize("time", [1e-300, 1e290])
def test_times_of_no_clock_are_refused(tmp_path, time, raised) -> None:
    times = dict.fromkeys(("median", "lower", "upper", "fastest"), time)
    timing = {**times, "runs": 3, "method": "events"}
    file = changed(
        tmp_path, lambda sweep: sweep["trials"][0].update(timing=timing), saved(tmp_path)
    )
    raised(ArchiveError, kernellab.Tuning.load, file, match=r"timing\.median")


def test_sweeps_of_two_kernels_are_not_put_together(tmp_path, raised) -> None:
    sweep = kernellab.Tuning.load(saved(tmp_path))
    raised(ArgumentError, sweep.merged, replace(sweep, kernel="other"))


def test_places_that_cannot_be_read_or_written_are_named(tmp_path, raised) -> None:
    tuning = kernellab.Tuning.load(saved(tmp_path))
    raised(ArchiveError, kernellab.Tuning.load, tmp_path)
    raised(ArchiveError, tuning.save, tmp_path / "nowhere" / "sweep.json")


def test_a_kernel_that_the_file_is_not_of_is_refused(tmp_path, raised) -> None:
    tuning = kernellab.Tuning.load(saved(tmp_path))
    raised(ArgumentError, tuning.with_kernel, applies, match="double")
    older = replace(tuning, constants={"SCALE": 2})
    raised(ArgumentError, older.with_kernel, double, match="SCALE")


SWEEP = ROOT / "notebooks/recorded/tuning_h200_vector_add.json"

Change = Callable[[dict[str, Any]], Any]


def changed(folder: Path, change: Change, sweep: Path = SWEEP) -> Path:
    data = json.loads(sweep.read_text())
    change(data["tunings"][0])
    file = folder / "sweep.json"
    file.write_text(json.dumps(data))
    return file


REFUSED: list[tuple[str, Any]] = [
    ("ptx_options", "-optf /etc/passwd"), ("ptx_options", "--options-file=/etc/passwd"),
    ("ptx_options", "-O3 -o /tmp/there"), ("ptx_options", "-O3 --output-file /tmp/there"),
    ("ptx_options", "-O3;touch x"), ("ptx_options", "-O3x"), ("ptx_options", "/etc/passwd"),
    ("ptx_options", ["-O3"]), ("ptx_options", 3), ("ptx_options", "-v " * 1000 + "-optf x"),
    ("ir_override", "/etc/passwd"), ("extern_libs", {"dict": [["libdevice", "/etc/passwd"]]}),
    ("instrumentation_mode", "consan"), ("arch", "sm90 -optf x"), ("backend_name", "x"),
    ("ptx_version", "83"), ("num_warps", "4"), ("num_warps", [4]), ("num_stages", 2.5),
    ("debug", "yes"), ("schedule_hint", "a\nb"), ("supported_fp8_dtypes", ["../x"]),
    ("default_dot_input_precision", {"tuple": ["ieee"]}), ("unknown", 1), ("", 1), ("-optf", "x"),
    ("__class__", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_options_are_of_a_list(tmp_path, name, value) -> None:
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
)  # fmt: skip
def test_usual_options_are_read(tmp_path, options) -> None:
    file = changed(tmp_path, lambda sweep: sweep["trials"][0].update(options=options))
    assert kernellab.load(file).trials[0].candidate.options == options


@pytest.mark.parametrize(
    "text",
    [
        "tensordesc<fp16[64,64],{}>", "tensordesc<fp16[64,64],,{}>",
        "tensordesc<fp16[64,64],NVMMASharedLayout({})>",
        "tensordesc<fp16[64,64],NVMMASharedLayout(**{})>",
        "tensordesc<fp16[64,64],SwizzledSharedLayout(1,1,1,order=[{}])>",
        "tensordesc<fp16[64,64],[x for x in {}]>", "tensordesc<]{}[1],fp16>",
        "tensordesc<fp16[64],{}<", "tensordesc<fp16[64],{}", "*tensordesc<fp16[64],{}>", "{}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["types", "own_types"])
def test_a_type_is_not_evaluated(tmp_path, text, where) -> None:
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
