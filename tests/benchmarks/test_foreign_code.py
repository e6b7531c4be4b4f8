"""The tool that runs other people's libraries: a made-up library, and what it makes of outcomes."""

import pytest
import torch

from benchmarks.foreign.outcomes import Outcome
from benchmarks.foreign.samples import Pair, distance
from benchmarks.foreign_code import DATA, Known, Library, judge, read_data, run_samples

MADE_UP = """
import time

import torch
import triton
import triton.language as tl

from benchmarks.foreign.samples import NotRunnable, Pair, Samples, drawn, later

SAMPLES = Samples()
assert torch.cuda.is_available(), "asked while it is imported"


@triton.jit
def scale_kernel(x_ptr, y_ptr, n, factor, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < (n if MASKED else n + 1)
    tl.store(y_ptr + offsets, factor * tl.load(x_ptr + offsets, mask=mask, other=0.0), mask=mask)


def scale(x, factor, masked=True):
    assert x.is_cuda
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), factor, masked, BLOCK=16)
    return y


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return scale(x, 2.0)

    @staticmethod
    def backward(ctx, slope):
        return scale(slope, 3.0)


some = later(drawn)
SAMPLES.both_ways("right", lambda x: scale(x, 2.0), lambda x: 2 * x, (some(5, 10),))
SAMPLES.both_ways("wrong", lambda x: scale(x, 2.0), lambda x: 3 * x, (some(5, 10),))
SAMPLES.both_ways(
    "gradient", Scale.apply, lambda x: 2 * x, (lambda: drawn(5, 10).requires_grad_(),)
)
SAMPLES.both_ways("beyond", lambda x: scale(x, 2.0, False), lambda x: 2 * x, (some(5, 10),))


@SAMPLES
def dying():
    import os

    print("last words")
    os._exit(3)


@SAMPLES
def lacking():
    raise NotRunnable("it wants two of them")


@SAMPLES
def endless():
    time.sleep(100)
    yield Pair("nothing", 0, 0)
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    site = tmp_path_factory.mktemp("site")
    (site / "made_up_samples.py").write_text(MADE_UP)
    library = Library("made_up_samples", "made-up 1.0", ())
    found = {}
    for one in run_samples(library, site, seconds=60, checked=True):
        found[one.sample] = one
        if one.sample == "lacking":
            break
    (found["endless"],) = run_samples(library, site, seconds=1, only="endless")
    return found


@pytest.mark.slow
def test_each_sample_ends_in_a_verdict(outcomes: dict[str, Outcome]) -> None:
    assert {name: one.verdict for name, one in outcomes.items()} == {
        "right": "right", "wrong": "wrong", "gradient": "wrong", "beyond": "error",
        "endless": "too slow", "dying": "died", "lacking": "not run",
    }  # fmt: skip
    assert (outcomes["right"].launches, outcomes["gradient"].launches) == (1, 2)
    assert outcomes["wrong"].why.startswith("output 0: ")
    assert outcomes["gradient"].why.startswith("gradient 0: ")
    assert "OutOfBounds" in outcomes["beyond"].why
    assert outcomes["dying"].why == "exit status 3"
    assert outcomes["lacking"].why == "it wants two of them"


@pytest.mark.slow
def test_launches_are_checked(outcomes: dict[str, Outcome]) -> None:
    assert not outcomes["right"].findings
    assert any("out-of-bounds" in one for one in outcomes["beyond"].findings)


@pytest.mark.slow
def test_a_library_that_cannot_be_imported_is_told(tmp_path) -> None:
    (tmp_path / "broken_samples.py").write_text("import there_is_no_such_module")
    with pytest.raises(RuntimeError, match="there_is_no_such_module"):
        list(run_samples(Library("broken_samples", "broken 1.0", ()), tmp_path, seconds=60))


def test_what_nothing_explains_is_the_labs() -> None:
    library = Library("m", "made-up 1.0", ())
    known = [Known("m", "a*", "library", "divides by 0"), Known("other", "*", "none", "no")]
    given = [Outcome("a1", "wrong"), Outcome("a2"), Outcome("b", "died"), Outcome("c", "not run")]
    report = judge(library, given, known)
    assert [one.sample for one in report.whose("library")] == ["a1"]
    assert [one.sample for one in report.whose("lab")] == ["b"]
    assert [one.sample for one in report.whose("none")] == ["c"]
    assert report.row()["right"] == 1
    with pytest.raises(ValueError, match="fault is one of lab, library, none"):
        Known("m", "a*", "no one", "why")


@pytest.mark.parametrize(
    ("got", "expected", "apart"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 3.0], [1.0, 1.0], 1.0),  # 2 of 1 and a root mean square of 1
        ([1.0, float("nan")], [1.0, float("nan")], 0.0),
        ([1.0, 0.0], [1.0, float("nan")], float("inf")),
        ([1.0, float("inf")], [1.0, 0.0], float("inf")),
        ([1.0, -float("inf")], [1.0, float("inf")], float("inf")),
        ([1j, 1.0], [1j, 1.0], 0.0),
        ([], [], 0.0),
    ],
)
def test_distance(got: list[float], expected: list[float], apart: float) -> None:
    assert distance(torch.tensor(got), torch.tensor(expected)) == apart


def test_pairs() -> None:
    assert not Pair("x", torch.ones(3), torch.ones(3)).fault()
    assert "shape (3,), expected (4,)" in Pair("x", torch.ones(3), torch.ones(4)).fault()
    assert Pair("x", torch.tensor([3]), torch.tensor([4])).fault(), "integers are exact"
    assert Pair("x", torch.tensor(1j), torch.tensor(2j)).fault(), "imaginary parts count"
    assert not Pair("x", torch.tensor(1.0), torch.tensor(1.001)).fault()


def test_the_data_names_what_is_pinned() -> None:
    libraries, known = read_data(DATA)
    assert len({one.module for one in libraries}) == 5
    for library in libraries:
        name, version = library.distribution.split()
        assert library.requirements[0].startswith(f"{name}=={version} ")
        assert all("==" in one and "--hash=sha256:" in one for one in library.requirements)
    assert {one.module for one in known} <= {one.module for one in libraries}
