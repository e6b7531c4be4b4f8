"""Profiles of launches on the interpreter: what is counted, scopes, sessions, what goes wrong."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import ArchiveError, ArgumentError, KernelFault, OptionError, ProfileError
from kernellab.launch import dispatch
from kernellab.viz.profiles import profile_view
from tests.kernels import profiled
from tests.kernels.profiled import leaves, named, product

K, B, PROGRAMS = 64, 16, 3


def launch_product(profile: Any = kernellab.profile) -> Any:
    a, b = torch.ones(B, K).half(), torch.ones(K, B * PROGRAMS).half()
    c = torch.zeros(B, B * PROGRAMS)
    found = profile(product, (PROGRAMS,), a, b, c, K, B=B)
    assert (c == K).all()
    return found


def launch_named(n: int = 50) -> None:
    kernellab.run(named, (4,), torch.zeros(64), n, BLOCK=16)


def line_of(text: str) -> int:
    lines = Path(str(profiled.__file__)).read_text().split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture(autouse=True)
def nothing_is_left_on() -> Any:
    """Afterwards no launch is watched, and Proton's scopes are its own."""
    yield
    assert not dispatch._watchers
    assert "flags" in dir(importlib.import_module("triton.profiler.scope"))
    assert type(importlib.import_module("triton.profiler.scope").flags).__name__ == "ProfilerFlags"


def test_work_is_counted_by_line_and_scope() -> None:
    found = launch_product()
    assert found.measured_by == "interpreter"
    assert "interpreter: not a GPU's time" in str(found)
    lines = found.lines.set_index(["line", "operation"])
    trips = K // B
    dot = lines.loc[(line_of("# the product"), "tt.dot")]
    assert dot["executions"] == PROGRAMS * trips
    assert dot["flops16"] == PROGRAMS * trips * 2 * B**3
    assert dot["cycles"] is None
    load = lines.loc[(line_of("b = tl.load"), "tt.load")]
    assert load["bytes"] == PROGRAMS * trips * B * B * 2
    assert lines.loc[(line_of("tl.store(c_ptr"), "tt.store"), "bytes"] == PROGRAMS * B * B * 4
    assert found.lines["share"].sum() == pytest.approx(1)
    assert (found.lines["time (ns)"] > 0).all()
    kernel = found.table(["flops16", "bytes", "count", "time/ms"]).set_index("name").loc["product"]
    assert kernel["flops16"] == 2 * B * B * PROGRAMS * K
    assert kernel["bytes"] == 2 * 2 * K * B * PROGRAMS + 4 * B * B * PROGRAMS
    assert kernel["time/ms"] == pytest.approx(found.lines["time (ns)"].sum() / 1e6, rel=0.2)
    assert found.kernels[0].compilation.kernel == "product"
    card = found._repr_mimebundle_()["text/plain"]
    assert f"line {line_of('# the product')} tt.dot 100 %" in card
    assert card.count("# the product") == 1  # in the tree, and not beside each operation again
    assert " 0.0" not in "".join(one for one in card.splitlines() if one.startswith("    product:"))


def test_masked_lanes_move_no_bytes() -> None:
    with kernellab.profile(hook=None) as p:
        launch_named(n=50)
    moved = p.lines.dropna(subset="bytes").set_index("operation")["bytes"]
    assert dict(moved) == {"tt.load": 200, "tt.store": 200}


def test_scopes_hooks_and_pauses() -> None:
    import triton.profiler as proton

    with kernellab.profile(name="all") as p:
        with p.scope("step", loss=0.5), p.scope("inner"):
            launch_named()
        p.deactivate()
        launch_named()
        p.activate()
        with proton.scope("theirs", {"tokens": 7}):
            launch_named()
        proton.enter_scope("by hand")
        proton.exit_scope(metrics={"x": torch.tensor(2.0)})
        launch_product(kernellab.run)
    assert (p.name, p.profile.name) == ("all", "all")
    table = p.table(["count", "loss", "tokens", "flops32"]).set_index("name")
    name = "named_<num_warps:4>"
    assert table.loc["step", "loss"] == 0.5
    assert table.loc["theirs", "tokens"] == 7
    assert list(table.loc[name, "count"]) == [1, 1]
    assert list(table.loc[name, "flops32"]) == [50, 50]  # said, in place of the 64 counted
    assert table.loc["product", "count"] == 1
    assert "by hand" in p.tree("x")
    assert [one.launches for one in p.kernels] == [2, 1]
    assert len(p.timeline()) == 3
    assert kernellab.show(p).data == profile_view(p.profile).data
    with pytest.raises(ProfileError, match="not started"):
        kernellab.show(kernellab.profile())


def test_a_hook_names_kernels_that_have_no_metadata() -> None:
    def hook(grid: Any, metadata: Any, args: Any) -> Any:
        return {"name": f"product_<B:{args['B']}>", "flops16": 5.0, "grid": grid}

    with kernellab.profile(hook=hook) as p:
        launch_product(kernellab.run)
    assert [one.name for one in p.kernels] == ["product_<B:16>"]


def test_a_hook_that_fails_is_told_and_the_launch_goes_on() -> None:
    with kernellab.profile(hook=lambda *_: 1 / 0) as p:
        launch_product(kernellab.run)
    assert "ZeroDivisionError" in " ".join(p.notes)
    assert p.kernels[0].name == "product"


def test_frames_are_the_callers() -> None:
    with kernellab.profile(context="python") as p:
        launch_named()
    frames = [one for one in p.profile if one.kind == "frame"]
    assert any(
        one.name.startswith(f"{__file__}:") and one.name.endswith("@launch_named") for one in frames
    )
    assert not any(str(Path(kernellab.__file__).parent) in one.name for one in frames)


def test_sessions_nest_and_each_has_what_ran_in_it() -> None:
    with kernellab.profile() as outer:
        launch_named()
        inner = kernellab.profile().start()
        launch_named()
    launch_named()
    found = inner.stop()
    assert inner.stop() is found
    assert outer.kernels[0].launches == 2
    assert found.kernels[0].launches == 2
    assert outer.profile - found


def test_a_function_is_profiled_at_every_call() -> None:
    session = kernellab.profile()
    launches = session(launch_named)
    launches()
    launch_named()
    launches()
    assert session.stop().kernels[0].launches == 2


def test_an_error_inside_ends_the_session() -> None:
    p = kernellab.profile()

    def launches() -> None:
        with p:
            launch_named()
            kernellab.run(leaves, (1,), torch.zeros(16))

    with pytest.raises(KernelFault):
        launches()
    assert p.kernels[0].launches == 1
    with pytest.raises(KernelFault, match="x_ptr"):
        kernellab.profile(leaves, (1,), torch.zeros(16))


def test_an_empty_session_and_an_empty_launch() -> None:
    with kernellab.profile() as p:
        kernellab.run(named, (0,), torch.zeros(16), 16, BLOCK=16)
    assert p.table()["name"].iloc[0] == "ROOT"
    assert str(p)
    assert p.tree()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: kernellab.profile().stop(), ProfileError, "not started"),
        (lambda: kernellab.profile().tree(), ProfileError, "no profile"),
        (lambda: kernellab.profile().start().start(), ProfileError, "started before"),
        (lambda: kernellab.profile(None, (1,), 5), ArgumentError, "without its kernel"),
        (lambda: kernellab.profile(context="x"), OptionError, "context must be one of .*, got 'x'"),
        (lambda: kernellab.profile(hook=5), OptionError, "got 5"),
        (lambda: kernellab.profile(mode="x"), OptionError, "mode must be one of .*, got 'x'"),
        (lambda: kernellab.profile().no_such_thing, AttributeError, "no_such_thing"),
        (
            lambda: kernellab.profile(backend="interpreter", mode="pcsampling").start(),
            ProfileError,
            "options of Proton",
        ),
    ],
)
def test_what_means_nothing_is_refused(call: Any, error: type[Exception], words: str) -> None:
    try:
        with pytest.raises(error, match=words):
            call()
    finally:
        _end_all()


def _end_all() -> None:
    """The session that `start().start()` leaves."""
    from kernellab.profiling.profiles import interpreter_session

    for session in list(interpreter_session._watch._sessions):
        session.deactivate()


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a driver")
def test_without_cupti_proton_is_told_and_nothing_is_left_on(raised) -> None:
    raised(ProfileError, kernellab.profile(backend="cupti").start)
    flags = sys.modules["triton.profiler.flags"].flags
    assert not flags.profiling_on
    launch_named()


def test_a_tile_kernel_keeps_the_metadata_of_the_kernel_it_is_made_of() -> None:
    with kernellab.profile() as p:
        kernellab.TileKernel(named)[(1,)](torch.zeros(16), 16, BLOCK=16)
    assert p.kernels[0].name == "named_<num_warps:4>"


def test_sessions_are_subtracted_and_saved_in_the_form_that_their_name_says(tmp_path: Path) -> None:
    sessions = []
    for _ in range(2):
        with kernellab.profile() as session:
            launch_named()
        sessions.append(session)
    first, second = sessions
    assert (first - second).rows() == (first.profile - second.profile).rows()
    saved = first.save(tmp_path / "named.json")
    assert saved.read_text().startswith('{"format"')
    assert kernellab.load(saved).kernels == first.kernels
    with pytest.raises(ArchiveError, match="a page") as refused:
        first.save(tmp_path / "named.html")
    assert "to_html" in str(refused.value.advice)
    trace = kernellab.load(first.save(tmp_path / "named.trace.json"))
    (kernel,) = (scope for scope in trace.root.walk() if scope.kind == "kernel")
    assert kernel.name.startswith("named")


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, Triton launches by itself")
def test_ordinary_launches_run_on_the_interpreter_where_there_is_no_gpu() -> None:
    x = torch.zeros(64)
    with kernellab.profile() as session:
        named[(4,)](x, 50, BLOCK=16)
    (kernel,) = session.kernels
    assert kernel.name.startswith("named")
    assert (kernel.grid, kernel.integers["n"]) == ((4, 1, 1), 50)
