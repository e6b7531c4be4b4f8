"""Libraries with an emulated GPU: subclasses, wrapped kernels, sparse and traced tensors."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import kernellab
from tests.kernels import third_party

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU answers for itself")

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")

TRACES_MODES = pytest.mark.skipif(
    torch.__version__ < "2.13",
    reason="before 2.13, torch.export with strict=True traces into function modes",
)


class Quantized(torch.Tensor):
    """A subclass without anything more, as libraries have them."""


class Scaled(torch.Tensor):
    factor: float

    @staticmethod
    def __new__(cls, values: Any, factor: float = 1.0) -> Scaled:
        made = torch.Tensor.__new__(cls, values)
        made.factor = factor
        return made


@pytest.mark.parametrize("device", [CUDA, CPU])
def test_subclasses_are_made_of_tensors(gpu, device) -> None:
    x = torch.ones(2, device=device)
    for made in (Quantized(x), Scaled(x, 2.0), x.as_subclass(Quantized)):
        assert type(made) in (Quantized, Scaled)
        assert (made.device, made.data_ptr()) == (device, x.data_ptr())
    assert Scaled(x, 2.0).factor == 2.0
    assert type(Quantized(x) + 1) is Quantized
    assert (Quantized(x) + 1).device == device
    assert Quantized([1.0, 2.0]).tolist() == [1.0, 2.0]


class Int8Weight(torch.Tensor):
    """A quantized tensor, whose operations are its own code."""

    stored: torch.Tensor
    scale: float

    @staticmethod
    def __new__(cls, values: torch.Tensor, scale: float) -> Int8Weight:
        make: Any = torch.Tensor._make_wrapper_subclass
        made = make(cls, values.shape, dtype=torch.float32, device=values.device)
        made.stored, made.scale = values, scale
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        devices = [arg.stored.device.type for arg in args if isinstance(arg, cls)]
        assert devices == ["cuda"] * len(devices)
        plain = [arg.stored.float() * arg.scale if isinstance(arg, cls) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


def test_operations_of_a_subclass_are_on_the_gpu(gpu) -> None:
    weight = Int8Weight(torch.ones(2, 2, dtype=torch.int8).cuda(), 2.0)
    for made in (weight + 1, torch.sin(weight), weight @ torch.ones(2, 2).cuda()):
        assert made.device.type == "cuda"
    assert torch.equal((weight + 1).cpu(), torch.full((2, 2), 3.0))


def test_a_subclass_made_inside_is_what_it_is_outside() -> None:
    with kernellab.interpreted(answers="gpu"):
        made = Quantized(torch.ones(2, device="cuda"))
    assert type(made) is Quantized
    assert "__new__" not in vars(torch.Tensor)
    assert type(Quantized(torch.ones(2))) is Quantized
    assert torch.Tensor([1.0]).tolist() == [1.0]


def test_a_wrapped_kernel_is_launched(gpu) -> None:
    gate, up = torch.randn(2, 300, device="cuda").unbind()
    out = torch.empty_like(gate)
    kernel: Any = torch.library.wrap_triton(third_party._gated_kernel)
    kernel[(2,)](gate, up, out, 300, BLOCK=256)
    torch.testing.assert_close(out, torch.nn.functional.silu(gate) * up)


def test_what_a_checkpoint_saves_is_on_the_gpu(gpu) -> None:
    x: Any = torch.ones(2, 4, device="cuda", requires_grad=True)
    where = []

    def block(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout((x * 2).exp()).softmax(-1)

    def pack(x: torch.Tensor) -> torch.Tensor:
        where.append(x.device)
        return x.cpu()

    torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum().backward()
    assert x.grad.is_cuda
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x.cuda()):
        (x * x).sin().sum().backward()
    assert set(where) == {CUDA}


def test_an_operator_of_a_library_passes_opcheck(gpu) -> None:
    @torch.library.custom_op("kernellab_tests::doubled", mutates_args={})
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    doubled.register_fake(torch.empty_like)
    checked = torch.library.opcheck(doubled, (torch.ones(4, device="cuda"),))
    assert set(checked.values()) == {"SUCCESS"}


def test_functions_that_an_operator_calls_see_the_gpu(gpu) -> None:
    x = torch.ones(4, device="cuda")
    cond: Any = importlib.import_module("torch._higher_order_ops.cond").cond_op
    taken = cond(
        x.sum() > 0,
        lambda x: x + torch.arange(4.0, device="cuda") * x.is_cuda,
        lambda x: x * 2,
        (x,),
    )
    assert (taken.device, taken.tolist()) == (CUDA, [1.0, 2.0, 3.0, 4.0])


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "bsc": lambda x: x.to_sparse_bsc((2, 2)),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("sparse", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("device", [CUDA, CPU])
def test_sparse_tensors_are_where_their_values_are(gpu, device, sparse) -> None:
    made = sparse(torch.eye(4, device=device))
    assert (made.device, made.is_cuda) == (device, device == CUDA)
    assert made.to_dense().device == device
    assert (made * 2).device == device
    values = made.coalesce().values() if made.layout is torch.sparse_coo else made.values()
    assert values.device == device
    assert (made.cpu().device, made.cuda().device, made.device) == (CPU, CUDA, device)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_made_of_their_parts(gpu) -> None:
    rows, columns = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
    for values in (torch.ones(2, device="cuda"), torch.ones(2)):
        for made in (
            torch.sparse_coo_tensor(torch.stack([columns, columns]), values),
            torch.sparse_csr_tensor(rows, columns, values),
            torch.sparse_compressed_tensor(rows, columns, values, layout=torch.sparse_csr),
        ):
            assert (made.device, made.cuda().device) == (values.device, CUDA)
    blocks = torch.ones(1, 2, 2)
    made = torch.sparse_bsr_tensor(rows[:2], columns[:1], blocks, device="cuda")
    assert made.device == made.col_indices().device == made.values().device == CUDA
    assert not columns.is_cuda
    assert not blocks.is_cuda
    gradient: Any = torch.ones(2, device="cuda", requires_grad=True)
    torch.sparse_coo_tensor(torch.stack([columns, columns]), gradient).to_dense().sum().backward()
    assert gradient.grad.tolist() == [1.0, 1.0]


MAKE: dict[str, Callable[[], torch.Tensor]] = {
    "empty": lambda: torch.empty(3, device="cuda"),
    "zeros": lambda: torch.zeros(3, device="cuda:0"),
    "randn": lambda: torch.randn(3, device=CUDA),
    "tensor": lambda: torch.tensor([1.0, 2.0], device="cuda"),
    "cuda": lambda: torch.ones(3).cuda(),
    "to": lambda: torch.ones(3).to("cuda", torch.float16),
    "module": lambda: torch.nn.Linear(2, 2, device="cuda").weight,
    "product": lambda: torch.zeros(3, 3, device="cuda") @ torch.ones(3, 1, device="cuda"),
    "like": lambda: torch.zeros_like(torch.empty(3, device="cuda")).new_empty(2),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_fake_tensors_are_made_on_the_gpu(gpu, make) -> None:
    with FakeTensorMode():
        made = make()
        assert made.device == CUDA
        assert made.is_cuda
        assert made.cpu().device == CPU
    assert made.device == CUDA
    assert (made + 1).device == CUDA


@pytest.mark.parametrize("dynamic", [False, True])
def test_fake_tensors_are_where_the_real_ones_are(gpu, dynamic) -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv() if dynamic else None, allow_non_fake_inputs=True)
    weight = torch.nn.Parameter(torch.ones(4, 4, device="cuda"))
    fake, on_cpu = mode.from_tensor(weight), mode.from_tensor(torch.ones(4, 4))
    assert (fake.device, on_cpu.device) == (CUDA, CPU)
    attention = torch.nn.functional.scaled_dot_product_attention(fake[None], fake[None], fake[None])
    assert attention.device == CUDA
    with mode:
        assert (fake @ weight).device == CUDA
        with pytest.raises(RuntimeError, match="device"):
            fake + on_cpu


@pytest.mark.parametrize("how", ["real", "fake", "symbolic"])
def test_functions_are_traced(gpu, how) -> None:
    x = torch.randn(4, 4, device="cuda")

    def function(x: torch.Tensor) -> torch.Tensor:
        twice = x.cpu().cuda().relu() * torch.tensor(2.0, device="cuda")
        return torch.zeros(x.shape, device=x.device) + twice

    module: Any = make_fx(function, tracing_mode=how)(x)
    assert "relu" in module.code
    if how != "real":
        assert "device(type='cuda'" in module.code
    torch.testing.assert_close(module(x), x.relu() * 2)
    assert type(torch.cuda.memory_allocated()) is int


def test_a_tensors_device_is_queried_below_autograd(gpu) -> None:
    x = FakeTensorMode().from_tensor(torch.ones(2, device="cuda"))
    assert torch.ops.prim.device.default(x) == CUDA


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=TRACES_MODES)])
def test_modules_are_exported(gpu, strict) -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = torch.nn.Sequential(torch.nn.Conv1d(3, 5, 1), layer).cuda().eval()
    x = torch.randn(2, 3, 8, device="cuda")
    program = torch.export.export(module, (x,), strict=strict)
    assert "conv1d" in str(program)
    torch.testing.assert_close(program.module()(x), module(x))
    assert "convolution" in str(program.run_decompositions())


class ScaledLinear(torch.nn.Linear):
    """A module with a constant, which tracing computes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * torch.tensor(0.5, device=x.device)


def test_a_small_module_is_exported(gpu) -> None:
    module = ScaledLinear(4, 4).cuda()
    x = torch.randn(3, 4, device="cuda")
    program = torch.export.export(module, (x,))
    torch.testing.assert_close(program.module()(x), module(x))
