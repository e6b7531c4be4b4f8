"""What comes before a launch is the same, whoever launches."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import triton
import triton.language as tl
from IPython.core.interactiveshell import InteractiveShell
from triton.runtime.jit import JITFunction

import kernellab
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import ArgumentError, GridError, OptionError
from kernellab.launch import preparation
from kernellab.tuning.configs import Calls, PreparedCall
from kernellab.tuning.records import Candidate
from tests.kernels import launched, like_options
from tests.support.pointers import Pointer

pytestmark = pytest.mark.usefixtures("goes_on")

N = 256


def tune(kernel: Any, *launch: Any, **keywords: Any) -> Any:
    """A sweep over one config, which is not run."""
    configs = [{"num_warps": 4}]
    return kernellab.tune(kernel, *launch, space=configs, check=False, cache=False, **keywords)


ON_THE_CPU: dict[str, Callable[..., Any]] = {
    "check": kernellab.check, "trace": kernellab.trace, "debug": kernellab.debug,
    "accesses": kernellab.accesses, "bisect": kernellab.bisect,
}  # fmt: skip
ENTRY_POINTS: dict[str, Callable[..., Any]] = {"run": kernellab.run, **ON_THE_CPU, "tune": tune}


class OnGpu(torch.Tensor):
    """A tensor that says that it is on a GPU; its memory is here."""

    is_cpu = False
    device = torch.device("cuda", 0)


def tensors() -> list[torch.Tensor]:
    return [torch.arange(float(N)), torch.ones(N), torch.zeros(N)]


def on_gpu() -> list[OnGpu]:
    return [tensor.as_subclass(OnGpu) for tensor in tensors()]


@pytest.mark.slow
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_hooks_run_first(entry_point) -> None:
    kernel = triton.jit(launched.add.fn)
    seen = []
    kernel.add_pre_run_hook(lambda *args, **keywords: seen.append((len(args), keywords["BLOCK"])))
    ENTRY_POINTS[entry_point](kernel, (2,), *tensors(), N, BLOCK=128)
    assert seen == [(4, 128)]


@pytest.mark.slow
def test_a_sweep_runs_hooks_on_copies() -> None:
    kernel = triton.jit(launched.add.fn)
    kernel.add_pre_run_hook(lambda *args, **_keywords: args[0].zero_())
    x, y, z = tensors()
    right = {"z_ptr": y}
    sweep = kernellab.tune(
        kernel, (2,), x, y, z, N, BLOCK=128,
        space=[{"num_warps": 4}], reference=right, check=True, cache=False,
    )  # fmt: skip
    assert [trial.outcome.dropped for trial in sweep.trials] == [None]
    assert torch.equal(x, torch.arange(float(N)))


@pytest.mark.slow
def test_a_sweep_over_types_runs_no_hooks() -> None:
    kernel = triton.jit(launched.add.fn)
    seen: list[Any] = []
    kernel.add_pre_run_hook(lambda *args, **keywords: seen.append(args))
    tune(kernel, None, "*fp32", "*fp32", "*fp32", "i32", BLOCK=128)
    assert not seen


def words_of(result: Any, printed: str) -> str:
    if result is None:
        return printed
    return " ".join(result.notices if isinstance(result, kernellab.Trace) else result.notes)


@pytest.mark.parametrize("entry_point", ON_THE_CPU)
def test_tensors_on_a_gpu_are_copied_to_the_cpu(entry_point, capsys) -> None:
    x, y, z = on_gpu()
    z.fill_(7)
    result = ENTRY_POINTS[entry_point](launched.add, (2,), x, y, z, N, BLOCK=128)
    note = f"kernellab.{entry_point} copied them (3.07 kB) and ran the kernel on the CPU."
    assert f"The tensors are on a GPU, so {note}" in words_of(result, capsys.readouterr().out)
    if entry_point in ("accesses", "bisect"):
        assert note in result._repr_mimebundle_()["text/plain"].replace("\n  ", " ")
    assert (z == 7).all()


@pytest.mark.parametrize("entry_point", ["trace", "debug"])
def test_in_place_writes_to_the_tensors_on_the_gpu(entry_point) -> None:
    x, y, z = on_gpu()
    ENTRY_POINTS[entry_point](launched.add, (2,), x, y, z_ptr=z, n=N, BLOCK=128, in_place=True)
    assert torch.equal(z.as_subclass(torch.Tensor), torch.arange(float(N)) + 1)


def test_copies_of_views_share_memory_and_results_are_compared_on_the_cpu() -> None:
    whole = torch.zeros(3 * N)
    whole[:N] = 1
    x, y, z = (part.as_subclass(OnGpu) for part in whole.split(N))
    trace = kernellab.trace(
        launched.add, (2,), x, y, z, N, BLOCK=128, expect={"z_ptr": torch.full((N,), 2.0)}
    )
    assert "z_ptr[0] is 1, expected 2" in " ".join(trace.notices)
    again = trace.of_programs([(1, 0, 0)])
    assert any("copied them (3.07 kB)" in notice for notice in again.notices)


@pytest.mark.parametrize("entry_point", ON_THE_CPU)
def test_more_than_the_largest_copy_is_refused(entry_point, monkeypatch, messages) -> None:
    monkeypatch.setattr(preparation, "LARGEST_COPY", 3000)
    words = rf"'add' hold 3.07 kB on a GPU, and {entry_point}, .* copies at most 3 kB there"
    with pytest.raises(ArgumentError, match=words) as caught:
        ENTRY_POINTS[entry_point](launched.add, (2,), *on_gpu(), N, BLOCK=128)
    assert caught.value.advice == messages


def test_hooks_get_the_copies() -> None:
    kernel = triton.jit(launched.add.fn)
    kernel.add_pre_run_hook(lambda *args, **_keywords: args[0].zero_())
    x, y, z = on_gpu()
    assert not kernellab.check(kernel, (2,), x, y, z, N, BLOCK=128, expect={"z_ptr": y})
    assert x.sum() > 0


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@triton.jit
def add_pair(pair, z_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.load(pair.first + offsets) + tl.load(pair.second + offsets)
    tl.store(z_ptr + offsets, total)


@pytest.mark.parametrize("entry_point", ON_THE_CPU)
def test_tensors_in_a_tuple_count(entry_point) -> None:
    x, y, z = on_gpu()
    result = ENTRY_POINTS[entry_point](add_pair, (1,), Pair(x, y), z, BLOCK=N)
    assert result is None or "(3.07 kB)" in words_of(result, "")


def test_a_pointer_to_memory_on_a_gpu_is_refused(monkeypatch, raised) -> None:
    monkeypatch.setattr(preparation, "local_target", lambda: DEFAULT_TARGET)
    x, y, _ = on_gpu()
    z = Pointer(0x7F0000000000, device=torch.device("cuda", 0))  # no one knows its extent
    raised(ArgumentError, kernellab.check, launched.add, (2,), x, y, z, N, BLOCK=128, match="z_ptr")


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_tensors_in_two_places_and_without_memory_are_refused(entry_point) -> None:
    x, y, z = tensors()
    for places, given in (
        ("x_ptr on cpu; y_ptr on cpu; z_ptr on meta", (x, y, z.to("meta"))),
        ("x_ptr on cpu; y_ptr on cuda; z_ptr on cpu", (x, y.as_subclass(OnGpu), z)),
    ):
        with pytest.raises(ArgumentError, match=places):
            ENTRY_POINTS[entry_point](launched.add, (2,), *given, N, BLOCK=128)


@pytest.mark.parametrize("kernel", [launched.add, kernellab.TileKernel(launched.add.fn)])
def test_a_launch_on_a_gpu_stays_tritons(kernel, monkeypatch, raised) -> None:
    given: list[Any] = []

    def launch(_kernel: Any, *args: Any, **keywords: Any) -> None:
        given.append((len(args), keywords))

    monkeypatch.setattr(JITFunction, "run", launch)
    monkeypatch.setattr(kernel, "pre_run_hooks", [lambda *_args, **_keywords: given.append(())])
    with kernellab.interpreted():
        kernel[(2,)](*on_gpu(), N, BLOCK=128, options={"num_warps": 8})
        error = raised(OptionError, kernel[(2,)], *on_gpu(), N, BLOCK=128, order="reversed")
    assert given == [(4, {"grid": (2,), "warmup": False, "BLOCK": 128, "num_warps": 8})]


def test_a_launch_on_a_gpu_without_tensors_is_bound_first(monkeypatch, raised) -> None:
    """Triton's own error would name a function of its own."""
    monkeypatch.setattr(preparation, "local_target", lambda: DEFAULT_TARGET)
    error = raised(ArgumentError, kernellab.run, launched.add, (2,), BLOCK=128, match="add")


def test_a_sweep_binds_tensors_on_a_gpu() -> None:
    kernel = triton.jit(launched.add.fn)
    args = (*on_gpu(), N)
    calls = Calls(kernel, (2,), args, {"BLOCK": 128}, DEFAULT_TARGET, ships=False)
    prepared = calls.prepare(0, Candidate({}, {"num_warps": 8}))
    assert isinstance(prepared, PreparedCall)
    assert prepared.call.options == {"num_warps": 8}
    assert prepared.task.grid == (2, 1, 1)
    assert prepared.call.values["x_ptr"] is args[0]


def test_a_name_given_by_position_is_an_option() -> None:
    x = torch.zeros(16, dtype=torch.int32)
    own: dict[str, Any] = {"outputs": "outputs", "target": "sm_80"}
    found = kernellab.check(like_options.like_check, (1,), x, 3, 4, **own)
    assert (found.target, found.kinds) == ("sm_80", ("unwritten-output",))
    trace = kernellab.trace(like_options.like_trace, (1,), x, 1, 2, 3, 4, operations=True)
    assert any(step.operation == "tt.store" for step in trace)
    counted = kernellab.accesses(like_options.like_accesses, (1,), x, 3, target="sm_80")
    assert counted.target == "sm_80"
    bisection = kernellab.bisect(like_options.like_bisect, (1,), x, 1, 2, 3, 4, target="gfx942")
    assert bisection.target == "gfx942"


@pytest.mark.parametrize("entry_point", ["accesses", "bisect"])
def test_options_may_be_said_outright(entry_point) -> None:
    found = ENTRY_POINTS[entry_point](
        launched.add, (2,), *tensors(), N, BLOCK=128, options={"num_warps": 8}
    )
    assert found.kernel == "add"


@pytest.mark.parametrize("entry_point", ["check", "accesses", "bisect"])
def test_run_options_that_a_entry_point_does_not_take(entry_point, messages) -> None:
    with pytest.raises(OptionError, match=f"order.*{entry_point}") as caught:
        ENTRY_POINTS[entry_point](launched.add, (2,), *tensors(), N, BLOCK=128, order="reversed")
    assert caught.value.advice == messages


def test_a_magic_leaves_a_kernels_names_to_it(monkeypatch) -> None:
    seen: list[dict[str, Any]] = []
    kernels = [like_options.like_check, like_options.like_trace, like_options.like_debug]
    for kernel in kernels:
        hook = lambda *_args, **keywords: seen.append(keywords)  # noqa: E731
        monkeypatch.setattr(kernel, "pre_run_hooks", [hook])
    shell = InteractiveShell()
    kernellab.load_ipython_extension(shell)
    lines = (
        "%tilecheck --target sm_90 like.like_check[(1,)](outputs=x, target=1, most_turns=2)",
        "%tilestep --program 0 --exact-bytes 64 like.like_trace"
        "[(1,)](programs=x, operations=1, in_place=2, exact_bytes=3, target=4)",
        "%tiledebug --program 0 like.like_debug[(1,)](program=x, breakpoints=1, in_place=2)",
    )
    try:
        shell.user_ns |= {"like": like_options, "x": torch.zeros(16, dtype=torch.int32)}
        for line in lines:
            shell.run_cell(line).raise_error()
    finally:
        kernellab.unload_ipython_extension(shell)
    assert [sorted(one) for one in seen] == [sorted(one.arg_names) for one in kernels]


@pytest.mark.parametrize("entry_point", ["check", "run"])
def test_a_launch_without_its_grid_says_so(entry_point, raised) -> None:
    x, y, z = tensors()
    told = raised(GridError, ENTRY_POINTS[entry_point], launched.add, x, y, z, N, BLOCK=64)
    assert "BLOCK" in told.advice


def test_a_kernel_with_its_grid_is_given_one_by_one(raised) -> None:
    told = raised(
        ArgumentError, kernellab.check, kernellab.TileKernel(launched.add)[(4,)], *tensors(), N,
        BLOCK=64,
    )  # fmt: skip
    assert told.advice == "Write add, (4,), ... instead."
