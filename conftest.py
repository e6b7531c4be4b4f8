"""How all tests run: environment, markers, time limits. tests/README.md explains the tiers.

Markers other than `slow` follow from a test's folder and fixtures.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

# Else each of the processes that the tests start compiles every file of KernelLab's again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest_plugins = ("pytester",)

# Nothing that is imported and collected is garbage; `pytest_collection_finish` enables it again.
gc.disable()

from tests.support import forked_kernels, pinned_versions, processor_time  # noqa: E402
from tools.capabilities import vector_instructions  # noqa: E402

# Notebooks that are checked keep no bars among their outputs; tests of bars ask for them.
os.environ.setdefault("KERNELLAB_PROGRESS", "0")

# Triton 3.9 warns where this is unset. Fusion is on in every version.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

# A thread of torch that waits for another would spin, which takes the processor from that thread:
# there are as many threads in each worker as there are cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# How long one example takes says how busy the machine is, and nothing about the code.
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")

# Hypothesis would parse every module of this project that is imported, for constants to draw: that
# takes seconds, and a test's examples would depend on the files that its worker ran before.
providers.is_local_module_file = lambda _: False

ROOT = Path(__file__).parent

MARKERS_OF_FIXTURES = {"chromium": "browser", "server": "browser", "notebook": "notebook"}
"""Fixture -> the marker of every test that uses it, directly or through another fixture."""

MARKERS_OF_FOLDERS = {"notebooks": "notebook", "tests/corpus": "corpus"}
"""Folder -> the marker of every test in it."""

FLOATS = (
    "notebooks/",
    "tests/benchmarks/test_fidelity_outputs.py",
    "tests/checker/",
    "tests/graphs/",
    "tests/interpreter/",
    "tests/launch/",
    "tests/profiling/",
    "tests/tracing/",
    "tests/workshop/",
)
"""Where tests compare floats with torch's or with saved text: `make test-processors` runs them
as on processors with other vector instructions."""

SLOW_LIMIT = 1200
"""Seconds after which a slow test or one in a browser fails; pyproject.toml limits the others."""

MOST_SECONDS = 5.0
"""Seconds of processor time that a test of `make test` should take at most. A busy or slow
processor takes longer, so a longer test is only listed at the end, and fails under --limit-times.
"""

LONG_FOR_A_REASON = {
    "notebooks/08_autotuning.ipynb::Cell 2": "compiles the twelve configs of a sweep",
    "notebooks/15_many_targets.ipynb::Cell 2": "compiles for every target",
    "notebooks/16_an_agent_and_the_judge.ipynb::Cell 4": "searches a fix of a wrong answer",
    "notebooks/16_an_agent_and_the_judge.ipynb::Cell 6": "judges five answers",
}
"""The tests of `make test` that may take longer, each with what takes it so long."""

FEW_TRIES = "24"
"""How many changes a notebook's kernel tries in `make test` to fix a wrong result: those that help
are among them. In `make test-all` it tries as many as for a user.
"""

PROCESSOR_SECONDS = "processor_seconds"
"""The property of a test's report that holds its processor time."""

LISTED_TIMES = 10
"""How many tests are listed at the end of a run."""

HAS_GPU = Path("/dev/nvidiactl").exists()

QUICK_TARGETS = {"sm_90", "sm_100", "gfx942"}
"""Targets for which `make test` runs tests with a parameter named `target`; if a test has none of
them, its first target. Tests of the others are slow.
"""

ONLY_IN_TEST_ALL = {
    "notebooks/03_softmax_and_fusion.ipynb": (7, 12),
    "notebooks/04_stepping_and_time_travel.ipynb": (14, 15),
    "notebooks/05_matmul.ipynb": (7, 15, 16, 17),
    "notebooks/06_what_the_compiler_does.ipynb": (6,),
    "notebooks/09_layer_norm.ipynb": (12,),
    "notebooks/10_flash_attention.ipynb": (8, 9),
    "notebooks/11_low_precision.ipynb": (11, 12, 13),
    "notebooks/12_torch_compile.ipynb": (16, 17, 26, 27),
    "notebooks/14_gluon.ipynb": (8,),
    "notebooks/16_an_agent_and_the_judge.ipynb": (8,),
    "notebooks/17_asynchrony.ipynb": (4, 8),
}
"""Notebook -> its cells that take long, without whose results its other cells run, and of whose
features other tests of `make test` are.
"""

WHOLE_CORPUS = os.environ.get("KERNELLAB_CORPUS") == "all"

FIRST = ("notebook", "browser", "slow")
"""Markers of the files that start first, so that no worker ends with a long file."""

_VISIBLE_DEVICES = os.environ.get("CUDA_VISIBLE_DEVICES")

_forks_kernels = pytest.StashKey[bool]()
_running = ExitStack()
"""What the tests of this process share until it ends."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep what is cached in a folder of this run, and run the notebooks without comparing their
    outputs where another Triton or torch is installed than the one that they were saved with: the
    compiler's output differs.
    """
    if "not slow" in config.option.markexpr:
        os.environ[forked_kernels.MOST_TRIES] = FEW_TRIES
    if not hasattr(config, "workerinput"):  # workers inherit the folder
        cache = _running.enter_context(TemporaryDirectory(prefix="kernellab-cache-"))
        os.environ["KERNELLAB_CACHE_DIR"] = cache
    if not pinned_versions.are_installed():
        config.option.nbval, config.option.nbval_lax = False, True


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its markers and its limit, and put files with long tests first."""
    if not WHOLE_CORPUS:
        for choose in (_with_known_values, partial(_outside_the_sample, name="thinned")):
            left_out = {*choose(items)}
            config.hook.pytest_deselected(items=[item for item in items if item in left_out])
            items[:] = [item for item in items if item not in left_out]
    slow = (
        _repeats_for_other_targets(items),
        _outside_the_sample(items, "sampled"),
        _long_cells(items),
    )
    for item in chain(*slow):
        item.add_marker("slow")
    long_files = set()
    for item in items:
        for marker in sorted(_markers_of(item)):
            item.add_marker(marker)
        if any(item.get_closest_marker(name) for name in FIRST):
            long_files.add(item.path)
        takes_long = item.get_closest_marker("slow") or item.get_closest_marker("browser")
        if takes_long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT))
    items.sort(key=lambda item: item.path not in long_files)


def pytest_collection() -> None:
    """Leave what was imported so far, most of it torch's, out of every later collection of garbage,
    and out of the search for the tensor at an address; the tests' own tensors are found there.
    """
    gc.freeze()


def pytest_collection_finish() -> None:
    """Collect garbage from now on."""
    gc.enable()


def _markers_of(item: pytest.Item) -> set[str]:
    place = item.path.relative_to(ROOT).as_posix()
    fixtures = getattr(item, "fixturenames", ())  # a notebook's cell has none
    markers = {marker for name, marker in MARKERS_OF_FIXTURES.items() if name in fixtures}
    markers |= {marker for name, marker in MARKERS_OF_FOLDERS.items() if place.startswith(name)}
    return markers | {"floats"} if place.startswith(FLOATS) else markers


def _with_known_values(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the tests of a product, marked `covering`, whose parameters all had their values in
    tests before them: the first kernel is tested for every target, the others for one.
    """
    known: set[tuple[object, str, str]] = set()
    for item in items:
        if item.get_closest_marker("covering"):
            function, parameters = getattr(item, "function", None), _parameters_of(item)
            values = {
                (function, name, str(getattr(value, "name", value)))
                for name, value in parameters.items()
            }
            if values <= known:
                yield item
            known |= values


def _long_cells(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    for item in items:
        file, _, cell = item.nodeid.partition("::Cell ")
        if cell and int(cell) in ONLY_IN_TEST_ALL.get(file, ()):
            yield item


def _parameters_of(item: pytest.Item) -> dict[str, object]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def _repeats_for_other_targets(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the tests for targets outside `QUICK_TARGETS` of functions that keep a quick one."""
    by_function: dict[object, list[pytest.Item]] = {}
    for item in items:
        if "target" in _parameters_of(item):
            by_function.setdefault(getattr(item, "function", None), []).append(item)
    for several in by_function.values():
        quick = [item for item in several if _target_of(item) in QUICK_TARGETS] or several[:1]
        yield from (item for item in several if item not in quick)


def _outside_the_sample(items: list[pytest.Item], name: str) -> Iterator[pytest.Item]:
    """Yield all but every n-th test of each function with a marker: those that `sampled` leaves to
    `make test-all`, or that `thinned` leaves to KERNELLAB_CORPUS=all.
    """
    seen: Counter[object] = Counter()
    for item in items:
        if marker := item.get_closest_marker(name):
            function = getattr(item, "function", None)
            if seen[function] % marker.args[0]:
                yield item
            seen[function] += 1


def _target_of(item: pytest.Item) -> str:
    target = _parameters_of(item)["target"]
    return str(getattr(target, "name", target))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first test that needs a notebook kernel, start the server that forks them.

    The cells of notebooks/ are compared with outputs saved without a GPU, so a GPU is hidden from
    them; tests/magics/test_notebooks_on_gpu.py runs the notebooks with it.
    """
    if item.path.suffix == ".ipynb":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif _VISIBLE_DEVICES is None:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = _VISIBLE_DEVICES
    uses_server = "server" in getattr(item, "fixturenames", ())
    if not (uses_server or item.get_closest_marker("notebook")):
        return
    if _forks_kernels not in item.config.stash:
        item.config.stash[_forks_kernels] = True
        folder = Path(_running.enter_context(TemporaryDirectory(prefix="kernels-")))
        _running.enter_context(forked_kernels.installed(folder))


def pytest_unconfigure() -> None:
    """End what the tests of this process shared."""
    _running.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --limit-times, for an idle machine: `make test-all` uses it."""
    parser.addoption(
        "--limit-times",
        action="store_true",
        help=f"fail a test without the mark slow that takes {MOST_SECONDS:g} s of processor time",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note the processor time of a test; the set-up of fixtures, which tests share, is left out.

    With --limit-times, a test that takes long and is not marked slow fails: it belongs to
    `make test-all`. No limit holds where a GPU is, since each process takes seconds to start CUDA.
    """
    start = processor_time.seconds()
    yield
    seconds = processor_time.seconds() - start
    item.user_properties.append((PROCESSOR_SECONDS, seconds))
    may_take_long = item.get_closest_marker("slow") or item.nodeid in LONG_FOR_A_REASON
    has_limit = not (may_take_long or HAS_GPU)
    if seconds > MOST_SECONDS and has_limit and item.config.getoption("--limit-times"):
        pytest.fail(
            f"The test took {seconds:.1f} s of processor time; {MOST_SECONDS:g} s are allowed. "
            "Make it faster, or mark it: @pytest.mark.slow."
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that took the most processor time, and name the vector instructions."""
    times = [
        (seconds, report.nodeid)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, seconds in report.user_properties
        if name == PROCESSOR_SECONDS
    ]
    if len(times) > LISTED_TIMES:
        terminalreporter.write_sep("=", "most processor time")
        for seconds, test in sorted(times, reverse=True)[:LISTED_TIMES]:
            reason = LONG_FOR_A_REASON.get(test, "")
            terminalreporter.write_line(f"{seconds:6.1f} s  {test}{reason and f': {reason}'}")
    terminalreporter.write_line(f"Vector instructions: {vector_instructions()}")


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts the test and the processes it starts, wherever the tests were started:
    in the background of a shell SIGINT is ignored, and children inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _stays_where_it_is() -> Iterator[None]:
    """A test that leaves its process in another folder spoils those after it: it fails itself."""
    before = Path.cwd()
    yield
    after = Path.cwd()
    os.chdir(before)
    assert after == before, f"the test left its process in {after}: use monkeypatch.chdir"
