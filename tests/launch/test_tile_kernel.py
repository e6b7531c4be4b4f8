"""TileKernel without a notebook: where launches go, what they leave behind, and that Triton still takes it for its own."""

import copy
import pickle
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction, KernelInterface

import kernellab
from kernellab.errors import ArgumentError, OptionError, UnsupportedOperation
from kernellab.launch import autotuners, preparation
from kernellab.launch.tile_kernel import GluonTileKernel, TileKernel, tile_kernels_in
from kernellab.records import Target
from tests.kernels import launched

N = 1000


@pytest.fixture
def add() -> TileKernel:
    return TileKernel(launched.add.fn)


@pytest.fixture
def vectors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(N, generator=generator)
    y = torch.rand(N, generator=generator)
    return x, y, torch.zeros(N)


def test_a_launch_runs_in_place_and_gives_a_run(add, vectors) -> None:
    x, y, z = vectors
    run = add[(8,)](x, y, z, N, BLOCK=128, num_warps=8)
    assert torch.equal(z, x + y)
    assert (run.device, run.target) == ("interpreter", Target("cuda", "90"))
    assert run is add.last_run
    assert add.last_launch.grid == (8, 1, 1)
    assert dict(add.last_launch.options) == {"num_warps": 8}
    assert add.last_launch.arguments["x_ptr"] == "float32[1000]"
    assert add.last_launch.specialization.signature["x_ptr"] == "*fp32"
    assert add.last_launch.specialization.constants == {(4,): 128}


def test_a_run_describes_its_arguments_as_they_were_and_keeps_none(add) -> None:
    x = torch.rand(N, 2)
    kept = weakref.ref(x)
    run = add[(8,)](x, x, x, N, BLOCK=128)
    x.resize_(3)
    words = run.launch.arguments
    assert dict(words) == {**dict.fromkeys(("x_ptr", "y_ptr", "z_ptr"), "float32[1000, 2]"), "n": "1000", "BLOCK": "128"}  # fmt: skip
    assert words == dict(words)
    assert pickle.loads(pickle.dumps(run)) == run
    assert repr(run.launch.arguments) == repr(dict(words))
    del x
    assert kept() is None
    assert add.last_run is run


def test_the_last_launch_is_the_last_that_did_not_fail(add, vectors) -> None:
    x, y, z = vectors
    assert add.last_run is None
    assert add.last_launch is None
    run = add[(8,)](x, y, z, N, BLOCK=128)
    with pytest.raises(ArgumentError):
        add[(8,)](x, y, z, BLOCK=128)
    assert add.last_run is run


def test_the_target_reaches_the_run(add, vectors) -> None:
    add.target = Target("hip", "gfx942")
    assert add[(8,)](*vectors, N, BLOCK=128).target.name == "gfx942"


def test_warmup_compiles_for_the_target_and_runs_nothing(add) -> None:
    compiled = add.warmup(torch.float32, torch.float32, torch.float32, N, BLOCK=128, grid=(8,))
    assert ".target sm_90a" in compiled.asm["ptx"]
    assert add.last_run is None


def test_a_gluon_kernel_compiles_and_runs_on_the_cpu() -> None:
    kernel = GluonTileKernel(launched.gluon_copy.fn)
    compilation: Any = kernellab.compile(kernel, "*fp32", "*fp32", N=128)
    assert "ttir" not in compilation.stages
    assert "#ttg.blocked" in compilation.stages["ttgir"].text
    x, y = torch.arange(128.0), torch.zeros(128)
    run = kernel[(1,)](x, y, N=128)
    assert torch.equal(x, y)
    assert run.launch.options == {"stage": "ttgir"}


def fresh_count() -> Any:
    """`launched.count` with an autotuner that has chosen nothing yet."""
    kernel = copy.copy(launched.count)
    kernel.cache = {}
    return kernel


def test_run_refuses_what_is_no_kernel(raised) -> None:
    raised(ArgumentError, kernellab.run, len, (1,))


def test_run_takes_an_autotuned_kernel_and_says_once_that_it_is_not_tuned(capsys) -> None:
    kernel = fresh_count()
    total = torch.full((1,), 5, dtype=torch.int32)
    run = kernellab.run(kernel, lambda p: (triton.cdiv(N, p["BLOCK"]),), total, N)
    assert total.item() == N  # reset to zero before the first launch, as after Triton's tuning
    assert run.launch.grid == (16, 1, 1)
    assert run.launch.options["num_warps"] == 2
    assert run.launch.specialization.constants[(3,)] is False
    kernellab.run(kernel, lambda p: (triton.cdiv(N, p["BLOCK"]),), total, N)
    assert total.item() == 2 * N
    said = capsys.readouterr().err
    assert said.count("count: not autotuned") == 1
    assert "BLOCK: 64" in said


def test_hooks_of_an_autotuner_see_tensors_where_arrays_were_given() -> None:
    total = np.full(1, 5, dtype=np.int32)
    kernellab.run(fresh_count(), (16,), total, N)
    assert total[0] == N


def test_a_tuned_parameter_must_not_be_given(raised) -> None:
    raised(
        ArgumentError, kernellab.run, launched.count, (16,), torch.zeros(1, dtype=torch.int32), N,
        BLOCK=64, match="count",
    )  # fmt: skip


def test_pruned_configs_are_not_taken(raised) -> None:
    kernel, total = fresh_count(), torch.zeros(1, dtype=torch.int32)
    kernel.early_config_prune = lambda configs, *_, **__: configs[1:]
    assert not kernellab.check(kernel, (8,), total, N, expect={"total_ptr": total + N})
    assert kernellab.run(kernel, (8,), total, N).launch.specialization.constants[(2,)] == 128
    kernel.early_config_prune = lambda *_, **__: []
    raised(ArgumentError, kernellab.check, kernel, (8,), total, N, match="2 configs")


def test_a_named_config_is_taken(capsys) -> None:
    total = torch.zeros(1, dtype=torch.int32)
    kernel = fresh_count()
    run = kernellab.run(kernel, (8,), total, N, config=1)
    assert (run.launch.specialization.constants[(2,)], total.item()) == (128, N)
    mine = triton.Config({"BLOCK": 256}, num_warps=1)
    run = kernellab.run(kernel, (4,), total, N, config=mine)
    assert (run.launch.specialization.constants[(2,)], total.item()) == (256, 2 * N)
    assert run.launch.options["num_warps"] == 1
    assert kernel.cache == {}
    assert len(kernel.configs) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("config", [2, -1, True, "first"])
def test_a_config_that_is_not_there(config, raised) -> None:
    caught = raised(
        ArgumentError, kernellab.run, fresh_count(), (8,), torch.zeros(1, dtype=torch.int32), N,
        config=config, match="count",
    )  # fmt: skip
    assert "1: BLOCK: 128" in caught.advice
    error = raised(ArgumentError, kernellab.run, launched.add, (8,), config=0, match="add")


def test_a_choice_without_timing_does_not_reach_a_gpu(monkeypatch) -> None:
    kernel = fresh_count()
    kernellab.run(kernel, (16,), torch.zeros(1, dtype=torch.int32), N)
    assert len(kernel.cache) == 1
    monkeypatch.setattr(autotuners, "goes_to_gpu", lambda *_: True)
    times = iter([2.0, 1.0])
    monkeypatch.setitem(vars(kernel), "do_bench", lambda *_, **__: [next(times)] * 3)
    monkeypatch.setattr(JITFunction, "run", lambda *_, **__: None)
    kernel[(16,)](torch.zeros(1, dtype=torch.int32), N)
    assert kernel.best_config is kernel.configs[1]


def test_autotuners_of_plain_kernels_are_left_to_triton(monkeypatch) -> None:
    timed = []

    def bench(kernel_call, quantiles):
        timed.append(quantiles)
        return [1.0, 1.0, 1.0]

    kernel = fresh_count()
    monkeypatch.setitem(vars(kernel), "do_bench", bench)
    monkeypatch.setattr(type(launched.count.fn), "run", lambda *_, **__: "ran")
    assert kernel[(1,)](torch.zeros(1), N) == "ran"
    assert len(timed) == len(kernel.configs)


def test_triton_takes_it_for_its_own(add, raised) -> None:
    assert isinstance(add, JITFunction)
    assert isinstance(add, KernelInterface)
    assert add.cache_key == launched.add.cache_key
    assert repr(add) == f"TileKernel({launched.__name__}:add)"
    assert add.__name__ == "add"
    raised(RuntimeError, add, 1)


def test_it_can_be_called_by_another_kernel_and_be_wrapped(add, monkeypatch, vectors) -> None:
    x, y, z = vectors
    monkeypatch.setattr(launched, "plus", TileKernel(launched.plus.fn))
    add[(8,)](x, y, z, N, BLOCK=128)
    assert torch.equal(z, x + y)
    tuned = triton.autotune(configs=[triton.Config({"BLOCK": 256})], key=[])(add)
    z.zero_()
    tuned[(4,)](x, y, z, N)
    assert torch.equal(z, x + y)
    assert tuned.best_config.kwargs == {"BLOCK": 256}


def test_only_functions_of_the_file_become_tile_kernels() -> None:
    file = launched.add.fn.__code__.co_filename
    target = Target("cuda", "80")
    before = JITFunction.__init__
    with tile_kernels_in(file, target) as made:
        ours = triton.jit(launched.add.fn)
        with_options = triton.jit(debug=True)(launched.plus.fn)
        theirs = triton.jit(triton.language.cdiv.fn)
    assert JITFunction.__init__ is before
    assert made == [ours, with_options]
    assert type(ours) is TileKernel
    assert ours.target == target
    assert type(theirs) is JITFunction
    assert type(triton.jit(launched.add.fn)) is JITFunction


def test_decorators_are_restored_after_an_exception() -> None:
    before = JITFunction.__init__
    with pytest.raises(ZeroDivisionError), tile_kernels_in("nowhere", Target("cuda", "80")):
        raise ZeroDivisionError
    assert JITFunction.__init__ is before


def test_a_launch_on_the_gpu_goes_to_triton_unchanged(add, monkeypatch) -> None:
    """Triton's own launch is replaced: what matters here is what it is given and what is noted of it."""
    given: dict[str, Any] = {}
    compiled = SimpleNamespace(
        src=SimpleNamespace(
            fn=add,
            signature={
                **dict.fromkeys(("x_ptr", "y_ptr", "z_ptr"), "*fp32"),
                "n": "i32",
                "BLOCK": "constexpr",
            },
            constants={(4,): 128},
            attrs={(0,): [["tt.divisibility", 16]]},
        ),
        metadata=SimpleNamespace(target=SimpleNamespace(backend="cuda", arch=90)),
    )

    def launch(kernel, *args, grid, warmup, **keywords):
        given.update(args=args, keywords=keywords, warmup=warmup, grid=grid({"BLOCK": 128}))
        return compiled

    monkeypatch.setattr(JITFunction, "run", launch)
    monkeypatch.setattr(preparation, "_goes_to_gpu", lambda *_: True)
    x = torch.zeros(N)
    result = add[lambda p: (N // p["BLOCK"], 2)](x, x, x, N, BLOCK=128, num_warps=8)
    assert result is compiled
    assert all(argument is x for argument in given["args"][:3])
    assert given["keywords"] == {"BLOCK": 128, "num_warps": 8}
    run = add.last_run
    assert (run.device, run.target.name, run.seconds) == ("gpu", "sm_90", None)
    assert run.launch.grid == (7, 2, 1)
    assert run.launch.arguments["x_ptr"] == "float32[1000]"
    assert run.launch.arguments["n"] == "1000"
    assert dict(run.launch.options) == {"num_warps": 8}


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
def test_cuda_tensors_run_on_the_gpu(add) -> None:
    x = torch.rand(N, device="cuda")
    z = torch.empty_like(x)
    add[lambda p: (triton.cdiv(N, p["BLOCK"]),)](x, x, z, N, BLOCK=128, num_warps=8)
    assert torch.equal(z, x + x)
    run = add.last_run
    assert (run.device, run.launch.grid) == ("gpu", (8, 1, 1))
    assert run.launch.arguments["x_ptr"] == "float32[1000]"
    assert run.launch.specialization.signature["x_ptr"] == "*fp32"
    assert dict(run.launch.options) == {"num_warps": 8}
    assert str(run.target) == f"sm_{''.join(map(str, torch.cuda.get_device_capability()))}"


@needs_gpu
def test_an_autotuned_launch_on_the_gpu_is_tuned_by_triton() -> None:
    kernel = fresh_count()
    total = torch.zeros(1, dtype=torch.int32, device="cuda")
    kernel[lambda p: (triton.cdiv(N, p["BLOCK"]),)](total, N)
    assert total.item() == N
    assert len(kernel.configs_timings) == 2


@needs_gpu
def test_one_kernel_on_cpu_and_gpu(add) -> None:
    x = torch.rand(N)
    on_cpu, on_gpu = torch.empty(N), torch.empty(N, device="cuda")
    add[(8,)](x, x, on_cpu, N, BLOCK=128)
    add[(8,)](x.cuda(), x.cuda(), on_gpu, N, BLOCK=128)
    assert torch.equal(on_cpu, on_gpu.cpu())
    with pytest.raises(ArgumentError, match="x_ptr on cpu; y_ptr on cuda; z_ptr on cpu"):
        add[(8,)](x, x.cuda(), on_cpu, N, BLOCK=128)


def test_without_any_tensor_the_machine_decides(add, monkeypatch) -> None:
    monkeypatch.setattr(preparation, "local_target", lambda: None)
    assert not preparation.goes_to_gpu(add, (1, 2), {})
    monkeypatch.setattr(preparation, "local_target", lambda: Target("cuda", "90"))
    assert preparation.goes_to_gpu(add, (1, 2), {})


def test_code_from_elsewhere_is_refused(add, vectors, raised) -> None:
    """A config may say `ir_override`; the interpreter must not run the kernel's own code instead, unsaid."""
    raised(UnsupportedOperation, add[(8,)], *vectors, N, BLOCK=128, ir_override="other.ttir")


def test_an_unknown_option_is_refused(add, vectors) -> None:
    with pytest.raises(OptionError, match="num_warp"):
        add[(8,)](*vectors, N, BLOCK=128, num_warp=8)


def test_a_tile_kernel_of_a_kernel_has_its_function_and_settings() -> None:
    @triton.jit(do_not_specialize=["n"])
    def kernel(x_ptr, n):
        tl.store(x_ptr, n)

    made = TileKernel(kernel)
    x = torch.zeros(1, dtype=torch.int32)
    made[(1,)](x, 7)
    assert x.item() == 7
    assert made.do_not_specialize == ["n"]


def test_what_is_no_function_makes_no_tile_kernel(raised) -> None:
    autotuned = triton.autotune([triton.Config({})], key=[])(launched.add)
    raised(ArgumentError, TileKernel, autotuned, match="got Autotuner")
