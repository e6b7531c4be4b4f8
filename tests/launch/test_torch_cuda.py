"""With `interpreted(answers="gpu")` libraries that insist on a GPU run on the CPU."""

import asyncio
import concurrent.futures
import copy
import importlib
import io
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import triton
from torch.utils import _triton as torch_triton
from triton.backends import backends

import kernellab
from kernellab.errors import OptionError, UnsupportedOperation
from kernellab.triton_api import current_gpu
from kernellab.triton_api.emulation import current_target_is
from tests.support.torch_state import state_of_torch

LIBRARY = "tests.kernels.insists_on_cuda"

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU answers for itself")


def imported_anew() -> Any:
    sys.modules.pop(LIBRARY, None)
    return importlib.import_module(LIBRARY)


CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


def test_the_library_insists() -> None:
    with pytest.raises(RuntimeError, match="needs a GPU"):
        imported_anew()
    with kernellab.interpreted(), pytest.raises(RuntimeError, match="needs a GPU"):
        imported_anew()


@pytest.mark.parametrize(
    ("target", "name", "count", "hopper", "amd"),
    [
        ("sm_90", "NVIDIA H100", 132, True, False),
        ("sm_75", "Tesla T4", 40, False, False),
        ("gfx942", "AMD Instinct MI300X", 304, True, True),
    ],
)
def test_it_runs_and_picks_by_the_target(target, name, count, hopper, amd) -> None:
    with kernellab.interpreted(target=target, answers="gpu"):
        library = imported_anew()
        x = torch.randn(5000, device="cuda")
        out = library.scale(x, 3.0)
        assert out.is_cuda
        torch.testing.assert_close(out, x * 3)
        with pytest.raises(ValueError, match="must be on a GPU, not on cpu"):
            library.scale(x.cpu(), 3.0)
        assert library.multiprocessors(0) == count
    assert library.NAME.startswith(name)
    assert (hopper, amd) == (library.IS_HOPPER, library.IS_AMD)


def test_gradients_streams_and_events(gpu) -> None:
    library = imported_anew()
    x: Any = torch.randn(300, device="cuda", requires_grad=True)
    library.Scale.apply(x, 2.0).sum().backward()
    assert x.grad.is_cuda
    assert x.grad.tolist() == [2.0] * 300
    assert library.milliseconds(lambda: library.scale(x.detach(), 2.0)) > 0


def test_an_operation_that_is_there_for_a_gpu_only(gpu) -> None:
    library = imported_anew()
    x = torch.randn(300, device="cuda")
    out = library.scaled(x, 2.0)
    assert out.is_cuda
    torch.testing.assert_close(out, x * 2)
    with pytest.raises(NotImplementedError):
        library.scaled(x.cpu(), 2.0)


def test_a_check_of_what_the_library_launches(gpu) -> None:
    library = imported_anew()
    x = torch.randn(300, device="cuda")
    report = kernellab.check(
        library._scale_kernel, (1,), x, torch.empty_like(x), 2.0, 400, BLOCK=256
    )
    assert "out-of-bounds" in {finding.kind for finding in report.findings}
    assert x.is_cuda


MAKE: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda device: torch.zeros(4, device=device),
    "randn": lambda device: torch.randn(4, device=device, dtype=torch.float16),
    "tensor": lambda device: torch.tensor([1, 2], device=device),
    "arange": lambda device: torch.arange(4, device=device),
    "full": lambda device: torch.full((2, 2), 7.0, device=device),
    "like": lambda device: torch.empty_like(torch.zeros(4), device=device),
    "new": lambda device: torch.zeros(4).new_ones(3, device=device),
    "as_tensor": lambda device: torch.as_tensor(torch.zeros(4), device=device),
    "of an array": lambda device: torch.as_tensor(numpy.zeros(4), device=device),
    "dlpack": lambda device: torch.utils.dlpack.from_dlpack(torch.zeros(4, device=device)),
    "to": lambda device: torch.zeros(4).to(device),
    "to device and type": lambda device: torch.zeros(4).to(device, torch.int32, True),
    "to by keywords": lambda device: torch.zeros(4).to(device=device, dtype=torch.int8),
    "to another's": lambda device: torch.zeros(4).to(torch.ones(1, device=device)),
    "linear": lambda device: torch.nn.Linear(2, 2, device=device).weight,
    "module": lambda device: torch.nn.Linear(2, 2).to(device).weight,
    "buffer": lambda device: torch.nn.BatchNorm1d(2).to(device).running_mean,
    "randint": lambda device: torch.randint(0, 9, (3,), device=device),
    "by a generator": lambda device: torch.rand(
        3, device=device, generator=torch.Generator(device=device).manual_seed(1)
    ),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_tensors_are_where_they_are_asked_for(gpu, make) -> None:
    for device in ("cuda", "cuda:0", CUDA, torch.device("cuda")):
        made = make(device)
        assert made.device == CUDA
        assert made.is_cuda
        assert not made.is_cpu
        assert made.get_device() == 0
    made = make("cpu")
    assert made.device == CPU
    assert not made.is_cuda
    assert made.is_cpu
    assert made.get_device() == -1


FOLLOW: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "arithmetic": lambda x: x * 2 + 1,
    "view": lambda x: x[1:].view(1, -1),
    "like": torch.zeros_like,
    "new": lambda x: x.new_empty(3),
    "product": lambda x: x[:, None] @ x[None],
    "cat": lambda x: torch.cat([x, x]),
    "function": lambda x: torch.nn.functional.layer_norm(x, (4,)),
    "sort": lambda x: torch.sort(x)[1],
    "type": lambda x: x.half(),
    "clone": lambda x: x.clone(),
    "deepcopy": lambda x: copy.deepcopy(x),
    "parameter": lambda x: torch.nn.Parameter(x),
    "out": lambda x: torch.add(x, 1, out=torch.empty_like(x)),
    "data": lambda x: x.data,
    "with a number": lambda x: x + torch.tensor(1.0),
    "in a list": lambda x: torch.stack([x, x]).unbind()[1],
    "written to": lambda x: torch.empty(4, device="cuda").copy_(torch.zeros(4)),
}


@pytest.mark.parametrize("follow", FOLLOW.values(), ids=FOLLOW)
def test_results_are_where_the_operands_are(gpu, follow) -> None:
    assert follow(torch.randn(4, device="cuda")).is_cuda
    if follow is not FOLLOW["written to"]:
        assert not follow(torch.randn(4)).is_cuda


def test_moving_is_a_copy_and_staying_is_none(gpu) -> None:
    x = torch.zeros(4)
    moved = x.cuda()
    moved += 1
    assert x.tolist() == [0.0] * 4
    assert moved.to("cuda") is moved.cuda() is moved
    assert moved.to("cuda", copy=True) is not moved
    back = moved.cpu()
    assert not back.is_cuda
    assert back.cpu() is back
    x.copy_(moved)
    assert x.tolist() == [1.0] * 4
    assert not x.is_cuda


def test_gradients_go_back_to_where_the_tensor_is(gpu) -> None:
    x: Any = torch.ones(3, requires_grad=True)
    (x.cuda() * 2).half().sum().backward()
    assert not x.grad.is_cuda
    assert x.grad.tolist() == [2.0] * 3
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model(x.detach().cuda()).sum().backward()
    optimizer.step()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert parameter.device == parameter.grad.device == CUDA


def test_numpy_cannot_read_a_gpu(gpu, raised) -> None:
    x = torch.ones(3, device="cuda")
    for read in (lambda: x.numpy(), lambda: numpy.asarray(x)):
        raised(TypeError, read)
    assert x.cpu().numpy().tolist() == x.tolist() == [1.0] * 3


def test_default_devices(gpu) -> None:
    with torch.device("cuda"):
        assert torch.zeros(3).is_cuda
        assert torch.nn.Linear(2, 2).weight.is_cuda
        assert not torch.zeros(3, device="cpu").is_cuda
    torch.set_default_device("cuda")
    assert torch.tensor([1.0]).is_cuda
    assert torch.get_default_device() == CUDA
    torch.set_default_device("cpu")
    assert not torch.zeros(3).is_cuda


def test_what_is_said_of_a_tensor(gpu) -> None:
    x = torch.ones(2, device="cuda")
    assert repr(x) == "tensor([1., 1.], device='cuda:0')"
    assert x.type() == "torch.cuda.FloatTensor"
    pinned = torch.ones(2).pin_memory()
    assert pinned.is_pinned()
    assert not pinned.is_cuda
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert not x.is_pinned()


def test_files_say_where_tensors_are(gpu) -> None:
    file = io.BytesIO()
    torch.save([torch.ones(2, device="cuda"), torch.ones(2)], file)

    def loaded(**how: Any) -> list[bool]:
        file.seek(0)
        return [one.is_cuda for one in torch.load(file, **how)]

    assert (loaded(), loaded(map_location="cuda")) == ([True, False], [True, True])
    assert loaded(map_location="cpu") == [False, False]
    assert loaded(map_location={"cuda:0": "cpu"}) == [False, False]
    assert pickle.loads(pickle.dumps(torch.ones(2, device="cuda"))).is_cuda


def test_another_gpu_is_not_there(gpu, raised) -> None:
    raised(RuntimeError, torch.zeros, 3, device="cuda:1")
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(1)
    raised(RuntimeError, torch.cuda.set_device, 1)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        torch.cuda.get_device_name("cpu")


def test_questions(gpu, raised) -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability("cuda") == (9, 0)
    properties: Any = torch.cuda.get_device_properties(CUDA)
    assert properties.major == 9
    assert (properties.multi_processor_count, properties.warp_size) == (132, 32)
    assert properties.shared_memory_per_block_optin == 227 * 1024
    assert torch.cuda.mem_get_info()[1] == properties.total_memory
    assert torch.cuda.is_bf16_supported()
    assert torch.version.cuda is not None
    assert torch.version.hip is None
    assert torch_triton.has_triton()
    assert torch_triton.has_triton_tma()
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert triton.runtime.driver.active.get_active_torch_device() == CUDA
    raised(AttributeError, lambda: properties.uuid, match="uuid")
    assert not hasattr(properties, "no_such_thing")


DEVICES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 0,
    "name": lambda: "cuda",
    "device": lambda: CUDA,
    "context": lambda: torch.cuda.device(0),
    "context of a tensor": lambda: torch.cuda.device_of(torch.ones(1, device="cuda")),
}


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_devices_in_all_forms_that_torch_takes(gpu, device) -> None:
    cuda: Any = torch.cuda
    assert cuda.get_device_properties(device()).multi_processor_count == 132
    assert cuda.get_device_capability(device()) == (9, 0)
    assert cuda.get_device_name(device()) == "NVIDIA H100 80GB HBM3"
    assert cuda.mem_get_info(device())[1] == cuda.get_device_properties().total_memory
    assert cuda.current_stream(device()) == cuda.default_stream(device())
    cuda.synchronize(device())
    x = torch.ones(1000, device="cuda")
    assert cuda.memory_allocated(device()) >= 4000 * x.is_cuda
    assert cuda.max_memory_allocated(device()) >= cuda.memory_allocated(device())
    assert cuda.memory_stats(device())["allocated_bytes.all.current"] >= 4000
    cuda.reset_peak_memory_stats(device())
    cuda.reset_accumulated_memory_stats(device())
    assert "emulated" in cuda.memory_summary(device())
    with cuda.device(device()):
        assert cuda.current_device() == 0
    if device() in (None, "cuda"):
        with pytest.raises(ValueError, match=r"with a specified index or an integer"):
            cuda.set_device(device())
    else:
        cuda.set_device(device())


def test_devices_that_torch_does_not_take(gpu, raised) -> None:
    """What torch's own code, on a machine with a GPU, says of them."""
    cuda: Any = torch.cuda
    on_cpu = cuda.device_of(torch.ones(1))
    cuda.set_device(on_cpu)
    cuda.synchronize(on_cpu)
    with pytest.raises(AssertionError, match="Invalid device id"):
        cuda.get_device_properties(on_cpu)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.memory_allocated("cpu")
    with pytest.raises(AttributeError, match="no attribute 'index'"):
        cuda.get_rng_state(cuda.device(0))
    raised(RuntimeError, cuda.current_stream, 1)
    assert cuda.get_rng_state(0).tolist() == cuda.get_rng_state("cuda").tolist()


def test_memory_is_what_lives_there(gpu) -> None:
    before = torch.cuda.memory_allocated()
    x = torch.zeros(1000, device="cuda")
    view = x[:10]
    assert torch.cuda.memory_allocated() - before == 4000
    del x
    assert torch.cuda.memory_allocated() - before == 4000
    torch.cuda.reset_peak_memory_stats()
    torch.zeros(500, device="cuda")
    assert torch.cuda.max_memory_allocated() - before == 6000
    del view
    assert torch.cuda.memory_allocated() == before


def test_random_numbers_follow_from_a_seed_and_an_offset(gpu) -> None:
    torch.manual_seed(3)
    assert torch.cuda.initial_seed() == 3
    on_cpu = torch.rand(4), torch.rand(4)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(4), on_cpu[0])
    state = torch.cuda.get_rng_state()
    assert state.view(torch.int64).tolist() == [3, 0]
    drawn = torch.rand(4, device="cuda"), torch.randn_like(torch.zeros(4, device="cuda"))
    assert torch.equal(torch.rand(4), on_cpu[1])  # the CPU's generator has no part in it
    offset = int(torch.cuda.get_rng_state().view(torch.int64)[1])
    assert offset > 0
    assert offset % 4 == 0
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="cuda"), drawn[0])
    assert torch.equal(torch.zeros(4, device="cuda").normal_(), drawn[1])


def test_generators_of_the_gpu(gpu, raised) -> None:
    one = torch.Generator(device="cuda").manual_seed(5)
    assert isinstance(one, torch.Generator)
    assert one.device == CUDA
    before = torch.cuda.get_rng_state()
    state = one.get_state()
    first = torch.randn(3, device="cuda", generator=one)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert not torch.equal(first, torch.randn(3, device="cuda", generator=one))
    assert torch.equal(first, torch.randn(3, device="cuda", generator=one.set_state(state)))
    raised(RuntimeError, one.set_state, torch.get_rng_state())
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().device == CPU
    torch.cuda.manual_seed(9)
    (default,) = torch.cuda.default_generators
    assert default.initial_seed() == 9


def test_events_and_streams(gpu, raised) -> None:
    stream = torch.cuda.Stream()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    with stream, torch.cuda.device(0):
        assert torch.cuda.current_stream() == stream
    assert torch.cuda.current_stream().cuda_stream == torch._C._cuda_getCurrentRawStream(0) == 0
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    raised(ValueError, start.elapsed_time, end, match="events")
    end.record()
    assert start.elapsed_time(end) > 0
    assert end.query()
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(torch.cuda.Event())


def test_other_peoples_code_for_torchs_operations(gpu) -> None:
    """As of a library that replaces them on the GPU: only there, and not within its own code."""
    taken: list[Any] = []

    def multiplied(one: torch.Tensor, other: Any) -> torch.Tensor:
        taken.append(other)
        return one + (one if other == 2 else torch.zeros_like(one))

    def random(size: list[int], device: Any = None, **_: Any) -> torch.Tensor:
        assert device == CUDA
        on_cpu = torch.ones(size) * 3  # torch's own: nothing of it is on the GPU
        assert not on_cpu.is_cuda
        return on_cpu.cuda()

    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("mul.Tensor", multiplied, "CUDA")
        library.impl("rand", random, "CUDA")
        assert (torch.ones(2, device="cuda") * 2).tolist() == [2.0, 2.0]
        assert len(taken) == 1
        assert torch.rand(2, device="cuda").tolist() == [3.0, 3.0]
        assert len(taken) == 1
    finally:
        library._destroy()


def test_graphs_are_refused_in_words(gpu, raised) -> None:
    for use in (torch.cuda.CUDAGraph, lambda: torch.cuda.make_graphed_callables(len, ())):
        raised(UnsupportedOperation, use)


def test_autocast_scales(gpu) -> None:
    x = torch.randn(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        assert torch.is_autocast_enabled("cuda")
    scaler = torch.amp.GradScaler("cuda")
    assert scaler.is_enabled()
    assert scaler.scale(x.sum()).is_cuda


def test_compiled_functions_run_as_they_are(gpu) -> None:
    @torch.compile(dynamic=True)
    def twice(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return x * 2

    assert twice(torch.ones(2, device="cuda")).tolist() == [2.0, 2.0]


def test_an_unknown_choice_is_refused(raised) -> None:
    raised(OptionError, kernellab.interpreted, answers="torch", match="torch")


def seen() -> tuple[bool, str | None, bool]:
    made = torch.cuda.is_available() and torch.zeros(2, device="cuda").is_cuda
    return torch.cuda.is_available(), torch.version.cuda, made


NO_GPU = (False, torch.version.cuda, False)


def test_threads_that_are_started_inside_are_inside(gpu) -> None:
    library = imported_anew()
    found: list[Any] = []

    class Worker(threading.Thread):
        def run(self) -> None:
            found.append(library.scale(torch.ones(3, device="cuda"), 2.0).tolist())

    worker = Worker()
    worker.start()
    worker.join()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found.append(pool.submit(lambda: threading.Thread(target=seen) and seen()[2]).result())
    assert found == [[2.0] * 3, True]


def test_other_threads_are_not() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(seen).result() == NO_GPU
        with kernellab.interpreted(answers="gpu"):
            assert pool.submit(seen).result() == NO_GPU
            assert pool.submit(torch_triton.has_triton).result() is False
            assert seen()[2]
            inside = torch.zeros(2, device="cuda")
            assert not pool.submit(lambda: inside.is_cuda).result()
            with pytest.raises(Exception, match="CUDA"):
                pool.submit(torch.cuda.Stream().__class__).result()


def test_a_thread_that_lives_longer_sees_nothing_afterwards() -> None:
    with kernellab.interpreted(answers="gpu"):
        pool = concurrent.futures.ThreadPoolExecutor(1)
        assert pool.submit(seen).result()[2]
    with pool:
        assert pool.submit(seen).result() == NO_GPU
        with kernellab.interpreted(answers="gpu"):
            assert pool.submit(seen).result() == NO_GPU


def test_tasks_are_told_apart() -> None:
    async def inside(target: str) -> Any:
        with kernellab.interpreted(target=target, answers="gpu"):
            await asyncio.sleep(0)
            name = torch.cuda.get_device_name()
            await asyncio.sleep(0)
            return name, torch.zeros(1, device="cuda").is_cuda

    async def outside() -> Any:
        await asyncio.sleep(0)
        return seen()

    async def all_of_them() -> Any:
        return await asyncio.gather(inside("sm_80"), outside(), inside("gfx942"))

    first, other, last = asyncio.run(all_of_them())
    assert first == ("NVIDIA A100-SXM4-80GB", True)
    assert other == NO_GPU
    assert last == ("AMD Instinct MI300X", True)
    assert seen() == NO_GPU


def names() -> dict[str, Any]:
    answers = seen(), torch_triton.has_triton(), torch.get_default_device()  # may import more
    return {**state_of_torch(), "seen": answers}


def test_everything_is_as_it_was() -> None:
    before = names()
    with kernellab.interpreted(answers="gpu"):
        torch.set_default_device("cuda")
        assert torch_triton.has_triton()
        x = torch.zeros(3)
        taken = torch.cuda.is_available, torch.cuda.Event, torch.Generator
    assert names() == before
    with pytest.raises(KeyError), kernellab.interpreted(answers="gpu"):
        raise KeyError
    assert names() == before
    assert not taken[0]()
    assert type(taken[2]()) is torch.Generator
    with pytest.raises(RuntimeError):
        taken[1]().record()
    assert not x.is_cuda
    assert x.device == CPU


def test_triton_makes_no_driver_for_an_emulated_gpu(monkeypatch) -> None:
    """It would keep the driver, where CUDA is installed and no GPU is there."""
    answers = []

    def asked() -> bool:
        answers.append(torch.cuda.is_available())
        return False

    monkeypatch.setattr(backends["nvidia"].driver, "is_active", staticmethod(asked))
    with kernellab.interpreted(answers="gpu"):
        assert current_gpu() is None
        target = triton.runtime.driver.active.get_current_target()
        with current_target_is(target), pytest.raises(RuntimeError, match="0 active drivers"):
            triton.runtime.driver.active.get_benchmarker()
    assert answers == [False, False]


def test_nested_ones_each_answer_for_themselves() -> None:
    before = names()
    with kernellab.interpreted(target="sm_80", answers="gpu"):
        with kernellab.interpreted(target="sm_90", answers="gpu"):
            assert torch.cuda.get_device_capability() == (9, 0)
            x = torch.zeros(2, device="cuda")
        assert torch.cuda.get_device_capability() == (8, 0)
        with kernellab.interpreted():
            assert seen() == NO_GPU
            assert triton.runtime.driver.active.get_active_torch_device() == CPU
        assert x.is_cuda
        assert seen()[2]
    assert names() == before
    with kernellab.interpreted(answers="gpu"):
        assert x.is_cuda


@pytest.mark.slow
def test_one_that_nobody_holds_lasts_until_the_process_ends() -> None:
    """As a plugin of pytest enters it, for a library's own tests."""
    code = f"""
import gc, kernellab
kernellab.interpreted(answers='gpu').__enter__()
gc.collect()
import torch
import {LIBRARY} as library
print(library.scale(torch.ones(2, device='cuda'), 3.0).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[3.0, 3.0]"]
