"""Nsight Compute's source page as CSV; `PAGE` is written by hand in the format that ncu prints."""

import json
import os
from pathlib import Path

import pytest

import kernellab
from kernellab.errors import ProfileError
from kernellab.profiling.profiles.nsight import REASONS, launch_pages

PAGE = """\
==PROF== Connected to process 77
"Kernel Name","add (8, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0"
"Address","Source","Warp Stall Sampling (All Samples)","Warp Stall Sampling (Not-issued Samples)","# Samples","Instructions Executed","L2 Theoretical Sectors Global","stall_long_sb","stall_selected","stall_wait","stall_long_sb (Not Issued)"
"0x7f2a3cfa0a00","      LDC R1, c[0x0][0x28] ","12","9","12","1,024","0","0","3","9","0"
"0x7f2a3cfa0a10","@!P0  LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ","1,203","1,200","1,203","1,024","4,096","1,200","3","0","1,200"
"0x7f2a3cfa0a20","      EXIT ","-","-","-","1,024","-","-","-","-","-"

"Kernel Name","scale"
"Address","Source","# Samples","Instructions Executed","stall_barrier"
"0x7f2a3cfa1a00","      BAR.SYNC.DEFER_BLOCKING 0x0 ","5","64","5"

"Kernel Name","add"
"Address","Source","# Samples","stall_lg"
"0x7f2a3cfa0a00","      LDC R1, c[0x0][0x28] ","7","7"
"0x7f2a3cfa0a10","      NOP ","inf","nan"
"""


def page_file(folder: Path, text: str = PAGE, name: str = "profile.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_every_instruction_has_its_samples_reasons_and_executions(tmp_path: Path) -> None:
    profile = kernellab.read_ncu(page_file(tmp_path), "add", gpu="NVIDIA H200")
    assert (profile.kernel, profile.gpu, len(profile)) == ("add", "NVIDIA H200", 3)
    first, load, last = profile
    assert (first.text, first.reasons) == ("LDC R1, c[0x0][0x28]", {"selected": 3, "wait": 9})
    assert load.text == "@!P0  LDG.E.128.CONSTANT R4, desc[UR4][R2.64]"
    assert load.address == 0x7F2A3CFA0A10
    assert load.samples == 1203
    assert load.stalls == 1200
    assert load.executed == 1024
    assert load.reasons == {"long_scoreboard": 1200, "selected": 3}
    assert load.counts == {"L2 Theoretical Sectors Global": 4096}
    assert (last.samples, last.reasons, last.executed) == (0, {}, 1024)
    assert profile.samples == 1215
    assert profile.reasons == {"long_scoreboard": 1200, "wait": 9, "selected": 6}


def test_other_launches_and_kernels_of_a_file(tmp_path: Path, messages) -> None:
    file = page_file(tmp_path)
    assert kernellab.read_ncu(file, "scale").reasons == {"barrier": 5}
    second = kernellab.read_ncu(file, "add", launch=2)
    only, infinite = second
    assert (infinite.samples, infinite.reasons) == (0, {})
    assert (only.samples, only.reasons, only.executed) == (7, {"lg_throttle": 7}, None)
    assert second.origin == messages


def test_columns_may_have_the_names_of_metrics_and_stand_beside_the_source() -> None:
    text = (
        '"Kernel Name","add"\n'
        '"Line No","Source","Address","Source","# '
        'Samples","smsp__pcsamp_warps_issue_stalled_short_scoreboard",'
        '"smsp__pcsamp_warps_issue_stalled_short_scoreboard_not_issued"\n'
        '"4","x = tl.load(p)","-","-","9","9","9"\n'
        '"","","0x10","LDS R4, [R2]","9","9","9"\n'
    )
    (page,) = launch_pages(text)
    (one,) = page.instructions
    assert (one.text, one.samples, one.reasons) == ("LDS R4, [R2]", 9, {"short_scoreboard": 9})


def test_what_it_says_of_itself(tmp_path: Path, messages) -> None:
    profile = kernellab.read_ncu(page_file(tmp_path), "add", gpu="NVIDIA H200")
    assert str(profile) == messages
    assert json.loads(json.dumps(profile.to_dict()))["instructions"][1]["samples"] == 1203
    table = profile.table()
    assert list(table["stalls"]) == [9, 1200, 0]
    assert set(profile.reasons) <= set(REASONS)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (PAGE, {}),
        (PAGE, {"kernel": "ad"}),
        (PAGE, {"kernel": "add", "launch": 3}),
        (PAGE, {"kernel": "add", "launch": 0}),
        ("", {}),
        ('"ID","Kernel Name","gpu__time_duration.sum"\n"0","add","12"\n', {}),
        ("\x00\xff" * 99, {}),
        ('"' + "x" * 200_000, {}),
    ],
)
def test_files_that_are_something_else_are_refused(tmp_path, text, options, raised) -> None:
    raised(ProfileError, kernellab.read_ncu, page_file(tmp_path, text), **options)


def test_a_file_that_is_not_there(tmp_path: Path, raised) -> None:
    for name in ("gone.csv", "gone.ncu-rep"):
        raised(ProfileError, kernellab.read_ncu, tmp_path / name)


REPORTER = """\
#!/bin/sh
case "$*" in
  *"--page source"*) cat "$2.page" ;;
  *"--page raw"*) printf '"ID","Kernel Name","device__attribute_display_name"\\n"","",""\\n"0","add","NVIDIA H200"\\n' ;;
esac
"""


def test_a_report_is_printed_by_ncu(tmp_path, monkeypatch, raised) -> None:
    report = page_file(tmp_path, "NVR", "profile.ncu-rep")
    monkeypatch.setenv("PATH", str(tmp_path))
    caught = raised(ProfileError, kernellab.read_ncu, report)
    assert "ncu --import profile.ncu-rep --page source" in caught.advice
    page_file(tmp_path, PAGE, "profile.ncu-rep.page")
    page_file(tmp_path, REPORTER, "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    profile = kernellab.read_ncu(report, "scale")
    assert (profile.kernel, profile.gpu, profile.samples) == ("scale", "NVIDIA H200", 5)
    page_file(tmp_path, "#!/bin/sh\necho cannot open the report >&2; exit 1\n", "ncu")
    raised(ProfileError, kernellab.read_ncu, report)
