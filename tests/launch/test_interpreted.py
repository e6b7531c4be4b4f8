"""`kernellab.interpreted()` runs a library on the CPU, and leaves Triton as it was."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
from triton.backends.driver import DriverBase
from triton.runtime import jit
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.driver import DriverConfig, driver
from triton.runtime.jit import JITCallable, JITFunction, KernelInterface

import kernellab
from kernellab.errors import OptionError, OutOfBounds, TargetError
from kernellab.launch.interception import InterpretedLaunch
from kernellab.records import Target
from tests.kernels import launched, parameters, third_party

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU answers for itself")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def pair(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(1000, generator=generator), torch.randn(1000, generator=generator)


def silu_times(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(gate) * up


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_module_level_kernel_with_helpers(pair, dtype) -> None:
    gate, up = (x.to(dtype) for x in pair)
    with kernellab.interpreted():
        out = third_party.gated(gate, up)
    torch.testing.assert_close(out, silu_times(gate, up))


def test_tensors_that_are_views(pair) -> None:
    gate, up = pair
    with kernellab.interpreted():
        out = third_party.gated(gate[8:], up[:-8])
        nothing = third_party.matmul(torch.ones(16, 32).T, torch.ones(48, 64)[::3, 10:20])
    torch.testing.assert_close(out, silu_times(gate[8:], up[:-8]))
    torch.testing.assert_close(nothing, torch.full((32, 10), 16.0))


def test_autotune_around_heuristics(generator, capsys) -> None:
    a, b = torch.randn(70, 50, generator=generator), torch.randn(50, 90, generator=generator)
    with kernellab.interpreted():
        c = third_party.matmul(a, b)
        again = third_party.matmul(a, b)
    torch.testing.assert_close(c, (a.double() @ b.double()).float())
    assert torch.equal(c, again)
    said = capsys.readouterr().err
    assert said.count("not autotuned") == 1
    assert "The first of 2 configs is used: BLOCK_M: 32" in said


@needs_no_gpu
@pytest.mark.parametrize(("target", "multiprocessors"), [("sm_90", 132), ("sm_75", 40)])
def test_a_host_that_asks_the_driver_and_the_compiled_kernel(
    generator, target, multiprocessors, monkeypatch
) -> None:
    x = torch.randn(1823, 781, generator=generator)
    grids = []
    getitem = triton.compiler.CompiledKernel.__getitem__

    def seen(kernel: Any, grid: Any) -> Any:
        grids.append(grid)
        return getitem(kernel, grid)

    monkeypatch.setattr(triton.compiler.CompiledKernel, "__getitem__", seen)
    with kernellab.interpreted(target=target):
        out = third_party.softmax(x)
    torch.testing.assert_close(out, torch.softmax(x, dim=1))
    compilation: Any = kernellab.compile(
        third_party._softmax_kernel, x, out, 781, 781, 1823, 781, 1024, target=target
    )
    held = multiprocessors * (65536 // (compilation.resources.registers * 128))
    assert grids == [(min(held, 1823), 1, 1)]


def test_autograd_launches_too(pair) -> None:
    gate, up = (x.clone().requires_grad_() for x in pair)
    with kernellab.interpreted():
        third_party.Gated.apply(gate, up).sum().backward()
    theirs = [x.clone().requires_grad_() for x in pair]
    silu_times(*theirs).sum().backward()
    torch.testing.assert_close(gate.grad, theirs[0].grad)
    torch.testing.assert_close(up.grad, theirs[1].grad)


def test_kernels_made_inside_work_outside_and_the_other_way_round(pair) -> None:
    with kernellab.interpreted():
        kernel = triton.jit(third_party._gated_kernel.fn)
    out = torch.empty(1000)
    with kernellab.interpreted():
        kernel[(4,)](*pair, out, 1000, BLOCK=256)
    torch.testing.assert_close(out, silu_times(*pair))


def test_a_gluon_kernel() -> None:
    x, y = torch.arange(128.0), torch.zeros(128)
    with kernellab.interpreted():
        launched.gluon_copy[(1,)](x, y, N=128, num_warps=4)
    assert torch.equal(y, x)


def test_a_kernel_whose_source_was_changed(pair) -> None:
    """As Triton's own tests do: the text that compiles is not that of the file."""
    kernel = JITFunction(third_party._gated_kernel.fn)
    out = torch.empty(1000)
    with kernellab.interpreted():
        kernel[(4,)](*pair, out, 1000, BLOCK=256)
        kernel._unsafe_update_src(kernel.src.replace("_silu(gate) * up", "gate + up"))
        kernel[(4,)](*pair, out, 1000, BLOCK=256)
    assert torch.equal(out, pair[0] + pair[1])


def test_a_launch_gives_its_run_and_what_a_compiled_kernel_has(pair) -> None:
    out = torch.empty(1000)
    with kernellab.interpreted(target="sm_80"):
        launch = third_party._gated_kernel[(4,)](*pair, out, 1000, BLOCK=256)
    assert isinstance(launch, InterpretedLaunch)
    assert launch.interpreted_run.target == Target("cuda", "80")
    assert ".target sm_80" in launch.asm["ptx"]
    assert launch.metadata.num_warps == 4
    with kernellab.interpreted(), pytest.raises(AttributeError, match="no_such_thing"):
        launch.no_such_thing


def test_faults_point_at_the_library(pair) -> None:
    with kernellab.interpreted(), pytest.raises(OutOfBounds) as caught:
        third_party._gated_kernel[(5,)](*pair, torch.empty(1000), 2000, BLOCK=256)
    assert caught.value.position is not None
    assert caught.value.position.file == third_party.__file__


def test_what_triton_refuses_raises_tritons_own_exceptions(pair) -> None:
    """Other people's code may wait for them; what KernelLab has to say is a note."""
    with kernellab.interpreted():
        with pytest.raises(triton.CompilationError) as refused:
            third_party._gated_kernel[(1,)](*pair, torch.empty(8), 8, BLOCK=7)
        assert "Triton cannot compile '_gated_kernel' for sm_90" in refused.value.__notes__[0]
        with pytest.raises(OverflowError):
            third_party._gated_kernel[(1,)](*pair, torch.empty(8), 2**70, BLOCK=8)
        with pytest.raises(AssertionError, match="num_warps must be a power of 2"):
            third_party._gated_kernel[(1,)](*pair, torch.empty(8), 8, BLOCK=8, num_warps=3)
    with kernellab.interpreted(), pytest.raises(kernellab.CompileError):
        kernellab.run(third_party._gated_kernel, (1,), *pair, torch.empty(8), 8, BLOCK=7)


def test_options_hold_for_every_launch_and_a_launch_goes_before(pair, raised) -> None:
    out = torch.empty(1000)
    kernel = third_party._gated_kernel
    with kernellab.interpreted(order="sequential"):
        plain = kernel[(4,)](*pair, out, 1000, BLOCK=256, num_warps=8).interpreted_run
        assert plain.launch.options == {"num_warps": 8}
        raised(
            OptionError, kernel[(4,)], *pair, out, 1000, BLOCK=256, order="sideways",
            match="sideways",
        )  # fmt: skip
        inner = kernellab.run(kernel, (4,), *pair, out, 1000, BLOCK=256)
    assert inner.target == Target("cuda", "90")
    with kernellab.interpreted(target="gfx942"):
        assert kernellab.run(kernel, (4,), *pair, out, 1000, BLOCK=256).target.name == "gfx942"


@pytest.mark.parametrize("kernel", [parameters.option_name, parameters.option_name_in_layout])
def test_a_parameter_that_is_called_like_an_option_is_both(kernel) -> None:
    """As in Triton, whose `JITFunction.run` gives all keywords to `parse_options`."""
    x = torch.zeros(256)
    with kernellab.interpreted():
        launch = kernel[(1,)](x, num_warps=8)
        assert launch.metadata.num_warps == 8
        assert x.sum() == (8 if kernel is parameters.option_name else 256)
        assert kernel.warmup(x, num_warps=8, grid=(1,)).metadata.num_warps == 8
        assert kernel[(1,)](x, 4).metadata.num_warps == 4  # by position: the parameter alone
        with pytest.raises(AssertionError, match="num_warps must be a power of 2"):
            kernel[(1,)](x, num_warps=3)
    outright = kernellab.run(kernel, (1,), x, num_warps=4, options={"num_warps": 4})
    assert outright.launch.options["num_warps"] == 4


def test_wrong_options_are_refused_at_once(raised) -> None:
    with pytest.raises(TargetError, match="sm_91"):
        kernellab.interpreted(target="sm_91")
    raised(OptionError, kernellab.interpreted, bounds="views", match="views")


@needs_no_gpu
@pytest.mark.parametrize(
    ("target", "backend", "arch", "lanes", "capability"),
    [
        ("sm_90", "cuda", 90, 32, (9, 0)),
        ("sm_120", "cuda", 120, 32, (12, 0)),
        ("gfx942", "hip", "gfx942", 64, (9, 4)),
        ("gfx90a", "hip", "gfx90a", 64, (9, 0)),
        ("gfx1201", "hip", "gfx1201", 32, (12, 0)),
    ],
)
def test_the_driver_answers_for_the_target(target, backend, arch, lanes, capability) -> None:
    with kernellab.interpreted(target=target):
        active = triton.runtime.driver.active
        assert isinstance(active, DriverBase)
        found = active.get_current_target()
        assert (found.backend, found.arch, found.warp_size) == (backend, arch, lanes)
        assert active.get_device_capability(0) == capability
        properties = active.utils.get_device_properties(active.get_current_device())
        assert properties["warpSize"] == lanes
        assert properties["multiprocessor_count"] > 20
        assert properties["max_shared_mem"] >= 64 * 1024
        assert active.get_active_torch_device() == torch.device("cpu")
        assert active.get_current_stream(0) == 0
        active.set_current_device(0)


@needs_no_gpu
@pytest.mark.parametrize(
    ("target", "bandwidth"), [("sm_80", 2039), ("sm_90", 3350), ("sm_120", 1792), ("gfx942", 5300)]
)
def test_autotuners_that_prune_by_times_find_the_data_sheets_clocks(target, bandwidth) -> None:
    """Triton computes the bandwidth of DRAM from them, in GB/s."""
    with kernellab.interpreted(target=target):
        assert triton.testing.get_dram_gbps(0) == pytest.approx(bandwidth, rel=1e-6)
        properties = triton.runtime.driver.active.utils.get_device_properties(0)
        assert 1e6 < properties["sm_clock_rate"] < 3e6  # kHz


@needs_no_gpu
def test_work_can_be_timed(pair) -> None:
    with kernellab.interpreted():
        milliseconds = triton.testing.do_bench(lambda: third_party.gated(*pair), warmup=1, rep=2)
    assert 0 < milliseconds < 1000


def everything_of_triton() -> dict[Any, Any]:
    """The attributes of Triton's classes, modules and kernels that launches go through."""
    classes = (JITFunction, JITCallable, KernelInterface, Autotuner, Heuristics, DriverConfig)
    modules = (
        triton, triton.runtime, triton.runtime.jit, triton.runtime.driver, triton.compiler,
        triton.language,
    )  # fmt: skip
    kernels = (third_party._matmul_kernel, third_party._matmul_inner)
    found = {
        (holder, name): id(value)
        for holder in (*classes, *modules, *kernels, driver)
        for name, value in vars(holder).items()
    }
    knobs = triton.knobs.runtime
    return {
        **found,
        "registry": dict(getattr(jit, "_triton_jit_function_registry", {})),  # from 3.7 on
        "interpret": knobs.interpret,
        "cache": dict(third_party._matmul_kernel.cache),
    }


@pytest.fixture
def unchanged() -> Iterator[None]:
    """Fails the test if Triton is not the same afterwards."""
    third_party._matmul_kernel.cache.clear()
    with kernellab.interpreted():  # attributes that Triton itself sets in a kernel's first launch
        third_party.matmul(torch.ones(4, 4), torch.ones(4, 4))
    kernellab.run(third_party._gated_kernel, (1,), *torch.ones(3, 16), 16, BLOCK=16)
    launch_plainly()  # where a GPU is, Triton makes its driver in the first launch
    timings = {"best_config", "bench_time", "configs_timings", "nargs"}
    before = everything_of_triton()
    yield
    after = everything_of_triton()
    changed = [
        key
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key) and not (isinstance(key, tuple) and key[1] in timings)
    ]
    assert not changed


def launch_plainly() -> str:
    """How a launch on CPU tensors fails that is Triton's own."""
    x = torch.ones(16)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - what it is depends on the machine
        third_party._gated_kernel[(1,)](x, x, x, 16, BLOCK=16)
    assert not isinstance(caught.value, kernellab.KernelLabError)
    return f"{type(caught.value)}: {caught.value}"


def test_nothing_is_left_behind(unchanged, pair) -> None:
    before = launch_plainly()
    with kernellab.interpreted():
        third_party.gated(*pair)
        third_party.matmul(torch.ones(40, 40), torch.ones(40, 40))
        with kernellab.interpreted(target="sm_80"):
            third_party.gated(*pair)
        third_party.gated(*pair)
    assert launch_plainly() == before
    with kernellab.interpreted():
        third_party.gated(*pair)


def test_nothing_is_left_behind_by_an_error_or_by_run(unchanged, pair) -> None:
    with pytest.raises(ZeroDivisionError), kernellab.interpreted(), kernellab.interpreted():
        raise ZeroDivisionError
    kernellab.run(third_party._gated_kernel, (4,), *pair, torch.empty(1000), 1000, BLOCK=256)
    launch_plainly()


@needs_no_gpu
def test_contexts_nest() -> None:
    def emulated() -> Any:
        return triton.runtime.driver.active.get_current_target().arch

    with kernellab.interpreted(target="sm_80"):
        with kernellab.interpreted(target="gfx942"):
            assert emulated() == "gfx942"
        assert emulated() == 80
        with pytest.raises(ZeroDivisionError), kernellab.interpreted(target="sm_90"):
            raise ZeroDivisionError
        assert emulated() == 80
    with pytest.raises(RuntimeError):
        emulated()


def test_as_a_decorator(pair) -> None:
    @kernellab.interpreted(target="sm_80")
    def halved(depth: int) -> torch.Tensor:
        out = third_party.gated(*pair)
        return out if depth == 0 else halved(depth - 1)

    torch.testing.assert_close(halved(2), silu_times(*pair))
    assert halved.__name__ == "halved"
    launch_plainly()


def test_other_threads_are_left_alone(pair) -> None:
    inside, done = threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)
    seen: list[str] = []

    def work() -> None:
        inside.wait()
        seen.append(launch_plainly())
        done.wait()

    before = launch_plainly()
    other = threading.Thread(target=work)
    other.start()
    with kernellab.interpreted():
        inside.wait()
        third_party.gated(*pair)
        done.wait()
    other.join()
    assert seen == [before]


def test_threads_enter_and_leave_in_any_order(unchanged, pair) -> None:
    """Each with the same context object; the last to leave is not the last that entered."""
    context = kernellab.interpreted()
    steps = [threading.Event() for _ in range(3)]
    results: list[torch.Tensor] = []

    def first() -> None:
        with context:
            steps[0].set()
            assert steps[1].wait(30)
        steps[2].set()

    def second() -> None:
        assert steps[0].wait(30)
        with context:
            steps[1].set()
            assert steps[2].wait(30)
            results.append(third_party.gated(*pair))

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.testing.assert_close(results[0], silu_times(*pair))
    launch_plainly()


@needs_no_gpu
def test_asyncio_tasks_have_their_own() -> None:
    async def emulated(target: str) -> Any:
        with kernellab.interpreted(target=target):
            await asyncio.sleep(0.01)
            return triton.runtime.driver.active.get_current_target().arch

    async def both() -> list[Any]:
        return list(await asyncio.gather(emulated("sm_80"), emulated("gfx942")))

    assert asyncio.run(both()) == [80, "gfx942"]
