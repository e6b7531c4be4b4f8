"""A profile's lines in the explorer: bars on the kernel's source."""

from typing import Any

from kernellab.errors import ProfileError
from kernellab.profiling.profiles import records
from kernellab.profiling.profiles.profile import Profile
from kernellab.records.display import show
from kernellab.viz.explorer_data import IrSide
from tests.viz.annotation_cases import FILE, GPU, compilation, line_of


def side_of(profile: Profile) -> IrSide:
    (side,) = show(compilation(), profile).data.sides
    assert isinstance(side, IrSide)
    return side


def profile_of_lines(line: int, kernel: str = "thinned") -> Profile:
    """A profile of marks, as of a GPU."""
    place: Any = {"file": FILE, "line": line, "share": 1.0, "kernel": kernel}
    return Profile(
        measured_by=records.LINE_SCOPES,
        root=records.Scope("ROOT", "root"),
        machine=records.Machine("sm_90", GPU),
        kernels=(records.ProfiledKernel(kernel, file=FILE, line=line_of("def thinned") - 1),),
        notes=("of 64 of 128 programs",),
        line_records=(
            records.ProfiledLine(operation="load", cycles=30.0, executions=4, **place),
            records.ProfiledLine(operation="compute", cycles=12.0, executions=4, **place),
        ),
        perturbation=records.Perturbation(10.0, 11.0, "in turns"),
    )


def test_cycles_of_lines_stand_on_the_kernels_source() -> None:
    line = line_of("# the store")
    found = side_of(profile_of_lines(line))
    metrics = {one.name: one for one in found.metrics}
    assert metrics["cycles"].stage == "source"
    assert metrics["cycles"].values == {line: 42}
    assert metrics["times executed"].values == {line: 8}
    assert "NVIDIA H200" in metrics["cycles"].origin
    words = [note.words for note in found.notes if note.origin.startswith("cycles")]
    assert words[0] == "of 64 of 128 programs"
    assert "1.10 times" in words[1]


def test_cycles_of_lines_that_have_no_code_are_refused(raised) -> None:
    raised(ProfileError, side_of, profile_of_lines(9999))
    raised(
        ProfileError, side_of, profile_of_lines(line_of("# the store"), "other"), match="thinned"
    )
