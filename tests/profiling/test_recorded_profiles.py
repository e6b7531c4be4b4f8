"""Profiles that `benchmarks.profile_on_gpu` recorded on an H200 against the code that ran."""

from collections import Counter
from pathlib import Path

import pytest

from kernellab.compiler.machine_code.instructions import padding_of
from kernellab.errors import ProfileError
from kernellab.profiling.profiles.nsight import SampledInstruction, lines_of
from kernellab.viz.explorer_sides import kernel_source
from tests.support.recorded_profiles import DATA, NAMES, compilation, facts, profile


def counter(name: str, metric: str) -> int:
    """A counter of the whole launch: "1,024 inst"."""
    return int(facts()[name]["counters"][metric].split()[0].replace(",", ""))


def text_of(name: str, line: int) -> str:
    source = kernel_source(compilation(name), compilation(name).source_map)
    shown = [n for n in range(1, line + 1) if n not in source.skipped]
    return source.content.split("\n")[len(shown) - 1].strip()


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_that_ran_is_one_of_the_compilation(name: str) -> None:
    assert facts()[name]["compilation is what ran"]
    lines = lines_of(profile(name), compilation(name))
    sass = compilation(name).stages["sass"].text.splitlines()
    padding = 0
    for one in reversed(profile(name).instructions):
        if one.text != "NOP":
            break
        padding += 1
    assert len(lines) == len(profile(name)) - padding == facts()[name]["instructions"] - padding
    for line, one in lines.items():
        opcode = next(word for word in one.text.split() if word[0] != "@")
        assert opcode in sass[line - 1]


@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_executed_no_padding(name: str) -> None:
    padding = padding_of(compilation(name))
    lines = lines_of(profile(name), compilation(name))
    branches = [one for line, one in lines.items() if line in padding]
    assert branches
    assert all(one.executed == 0 for one in branches)


@pytest.mark.parametrize("name", NAMES)
def test_executions_are_those_of_the_launch(name: str) -> None:
    launch = facts()[name]
    programs, warps = launch["grid"][0], launch["config"]["num_warps"]
    first, *_ = profile(name)
    assert first.executed == programs * warps
    total = sum(one.executed or 0 for one in profile(name))
    assert total == counter(name, "sass__inst_executed_per_opcode")


def sectors(name: str, *opcodes: str) -> int:
    """Sectors that instructions of some opcodes asked for."""
    counted = "L2 Theoretical Sectors Global"
    chosen = [one for one in profile(name) if any(opcode in one.text for opcode in opcodes)]
    return sum(one.counts.get(counted, 0) for one in chosen)


def test_sectors_are_those_of_the_tensors() -> None:
    # Softmax of 32,768 rows of 1,024 fp32: each read once and written once.
    assert sectors("softmax", "LDG", "LDGSTS") == 32768 * 1024 * 4 // 32
    assert sectors("softmax", "STG") == 32768 * 1024 * 4 // 32
    # A product of 4,096 squared, fp16: 1,024 programs read 128 rows and 128 columns each;
    # C is written once.
    assert sectors("matmul", "LDGSTS") == 1024 * 2 * 128 * 4096 * 2 // 32
    assert sectors("matmul", "STG") == 4096 * 4096 * 2 // 32


@pytest.mark.parametrize(
    ("name", "words", "reason"),
    [
        ("softmax", "numerator = tl.exp(x - tl.max(x, axis=1)[:, None])", "long_scoreboard"),
        ("matmul", "a = tl.load(a_ptrs, mask=k[None, :] < K - start, other=0.0)", "barrier"),
    ],
)
def test_the_heaviest_line_is_read_through_the_source_map(name, words, reason) -> None:
    by_line: Counter[int] = Counter()
    reasons: dict[int, Counter[str]] = {}
    lines = lines_of(profile(name), compilation(name))
    file = compilation(name).source_map.file
    for one in compilation(name).instructions:
        measured = lines.get(one.line)
        for line in {frame.line for chain in one.chains for frame in chain if frame.file == file}:
            if isinstance(measured, SampledInstruction):
                by_line[line] += measured.stalls
                reasons.setdefault(line, Counter()).update(measured.reasons)
    (heaviest, stalls), *_ = by_line.most_common()
    assert text_of(name, heaviest) == words
    assert reasons[heaviest].most_common(1)[0][0] == reason

    # The explorer's bars say the same, through the map that travels with the view.
    view = compilation(name).explore(profile(name))
    assert view.data.metric == "stall samples"
    (metric,) = [one for one in view.data.sides[0].metrics if one.name == "stall samples"]
    assert metric.origin == "measured on NVIDIA H200 by Nsight Compute"
    carried: Counter[int] = Counter()
    for line, number in metric.values.items():
        for there in compilation(name).source_map.lines("sass", "source", line):
            carried[there] += int(number)
    assert carried == +by_line
    assert f"{stalls:,}" in repr(view)


def test_nearly_all_stalls_have_a_line_of_the_kernel() -> None:
    for name in NAMES:
        lines = lines_of(profile(name), compilation(name))
        known = compilation(name).source_map
        placed = sum(one.stalls for at, one in lines.items() if known.lines("sass", "source", at))
        total = sum(one.stalls for one in profile(name))
        assert placed >= 0.98 * total, (
            "library functions such as tl.max are inlined from a line of the kernel"
        )


def test_the_other_recording_is_refused(raised) -> None:
    raised(ProfileError, compilation("matmul").explore, profile("softmax"), match="softmax_rows")


def test_the_recording_is_small_and_names_no_folder_of_a_user() -> None:
    for name in NAMES:
        for suffix in ("csv", "kernellab"):
            file: Path = DATA / f"profile_h200_{name}.{suffix}"
            assert file.stat().st_size < 200_000
        assert all(
            path.startswith(("/lab/", "/site-packages/"))
            for path in compilation(name).source_map.files
        )
