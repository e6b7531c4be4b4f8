"""Triton kernels as Inductor generates them for an H200, with no GPU.

    python -m tests.support.inductor_kernels FOLDER

writes FOLDER/NAME.py for each of `FUNCTIONS`: a module with the kernels, as `torch.compile` leaves
it in its cache. It is a process of its own, because torch takes a GPU for there meanwhile.
"""

import ast
import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import torch

from tests.support.python_processes import python_path


def _seeded(*makers: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return tuple(make() for make in makers)


FUNCTIONS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "pointwise": (
        lambda x, y: torch.sin(x) * y + 1,
        _seeded(lambda: torch.randn(1000), lambda: torch.randn(1000)),
    ),
    "half": (lambda x: torch.relu(x) * 3, _seeded(lambda: torch.randn(37, 11).bfloat16())),
    "transposed": (
        lambda x, y: x.t() + y,
        _seeded(lambda: torch.randn(300, 200), lambda: torch.randn(200, 300)),
    ),
    "embedding": (
        lambda index, weight: weight[index] + 1,
        _seeded(lambda: torch.randint(0, 50, (17,)), lambda: torch.randn(50, 33)),
    ),
    "reduction": (lambda x: (x * x).sum(-1), _seeded(lambda: torch.randn(32, 5000))),
    "softmax": (lambda x: torch.softmax(x, -1), _seeded(lambda: torch.randn(64, 1000))),
    "wide_softmax": (lambda x: torch.softmax(x, -1), _seeded(lambda: torch.randn(4, 5000))),
    "total": (lambda x: x.sum(), _seeded(lambda: torch.randn(700))),
    "running": (lambda x: torch.cumsum(x, 0), _seeded(lambda: torch.randn(10_000))),
}
"""Function and arguments, each of which becomes one kernel."""


def generate(folder: Path) -> dict[str, Path]:
    """The modules of `FUNCTIONS`, by name."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.support.inductor_kernels", str(folder)]
    around = {**os.environ, "PYTHONPATH": python_path(root)}
    subprocess.run(command, check=True, cwd=root, env=around)
    return {name: folder / f"{name}.py" for name in FUNCTIONS}


H200 = SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, warp_size=32,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
    total_memory=141 << 30, L2_cache_size=50 << 20, shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472, gcnArchName="",
)  # fmt: skip


def _write_all(folder: Path) -> None:
    _pretend_gpu()
    for name, (function, args) in FUNCTIONS.items():
        tree = ast.parse(_generated_code(function, args))
        (kernel,) = (
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "async_compile.triton"
        )
        source = cast("ast.Constant", kernel.args[1]).value
        (folder / f"{name}.py").write_text(str(source))


def _generated_code(function: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> str:
    """What Inductor writes for a function: its graph is traced on the CPU, and moved."""
    from torch._inductor import compile_fx, config
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.graph import GraphLowering
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    traced: Any = make_fx(
        lambda *inputs: (function(*inputs),), select_decomp_table(), tracing_mode="fake"
    )(*args)
    gpu = torch.device("cuda:0")
    for node in traced.graph.nodes:
        node.args, node.kwargs = torch.fx.node.map_aggregate(
            (node.args, node.kwargs), lambda one: gpu if isinstance(one, torch.device) else one
        )
        node.meta.pop("val", None)
    traced.recompile()
    with FakeTensorMode():
        inputs = [
            torch.empty_strided(one.size(), one.stride(), dtype=one.dtype, device=gpu)
            for one in args
        ]
    written: list[str] = []

    def keep_code(lowering: Any) -> Any:
        written.append(lowering.codegen()[0].value)
        return SimpleNamespace(call=lambda *_: None, __file__="nowhere")

    settings = {
        "force_disable_caches": True, "compile_threads": 1, "comprehensive_padding": False
    }  # fmt: skip
    with config.patch(settings), mock.patch.object(GraphLowering, "compile_to_module", keep_code):
        compile_fx.compile_fx_inner(traced, inputs)
    return written[0]


def _pretend_gpu() -> None:
    """From now on torch and Triton take an H200 for there, in this process."""
    import triton
    from torch._dynamo import device_interface
    from triton.backends.compiler import GPUTarget

    torch._C._ensureCUDADeviceGuardSet()
    if not torch.backends.cuda.is_built():  # that did nothing: tensors on "meta" have a guard too
        (library,) = (Path(torch.__file__).parent / "lib").glob("libc10.so*")
        guards = (ctypes.c_void_p * 22).in_dll(
            ctypes.CDLL(str(library)), "_ZN3c104impl26device_guard_impl_registryE"
        )
        cuda, meta = 1, 14
        guards[cuda] = guards[cuda] or guards[meta]
    answers: dict[str, Callable[..., Any]] = {
        "current_device": lambda: 0, "device_count": lambda: 1, "is_available": lambda: True,
        "set_device": lambda _: None, "exchange_device": lambda _: 0,
        "maybe_exchange_device": lambda _: 0, "get_device_properties": lambda _=None: H200,
        "get_compute_capability": lambda _=None: 90, "get_raw_stream": lambda _: 0,
        "is_bf16_supported": lambda *_, **__: True, "is_triton_capable": lambda _=None: True,
        "raise_if_triton_unavailable": lambda _=None: None,
    }  # fmt: skip
    methods = {name: staticmethod(answer) for name, answer in answers.items()}
    worker = type("Worker", (device_interface.CudaInterface.Worker,), methods)
    interface = type("H200", (device_interface.CudaInterface,), {**methods, "Worker": worker})
    device_interface.get_interface_for_device("cuda")
    for device in ("cuda", "cuda:0"):
        device_interface.register_interface_for_device(device, interface)
    for name in ("current_device", "device_count", "get_device_properties"):
        setattr(torch.cuda, name, answers[name])
    torch.cuda.get_device_capability = lambda _=None: (9, 0)  # type: ignore[assignment]
    driver = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda _=None: 0,
    )
    triton.runtime.driver.set_active(driver)


if __name__ == "__main__":
    _write_all(Path(sys.argv[1]))
