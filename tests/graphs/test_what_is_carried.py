"""What a capture has of the user's process: all of it, as it runs in a copy."""

import linecache
import subprocess
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._inductor.config
import triton
import triton.language as tl
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F  # noqa: N812

import kernellab
from kernellab.errors import ArgumentError, OptionError
from kernellab.graphs import report as reports
from kernellab.graphs.processes import can_copy_this_process
from kernellab.graphs.report import GraphReport

_dynamo: Any = torch._dynamo
_inductor: Any = torch._inductor.config


@pytest.fixture(params=["copied", pytest.param("sent", marks=pytest.mark.slow)])
def carried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture in a copy of this process, and in another process, as where CUDA is in use."""
    if request.param == "sent":
        monkeypatch.setattr(reports, "can_copy_this_process", lambda: False)
    elif not can_copy_this_process():
        pytest.skip("CUDA is in use here: no copy of this process can call torch")


def opened(function: Any, *args: Any, **options: Any) -> GraphReport:
    report = kernellab.graph(function, *args, levels=False, **options)
    assert report.error == "", report.error
    assert [graph.error for graph in report.graphs] == [""] * len(report.graphs)
    return report


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * torch.tensor(2.0),
        lambda x: (x - torch.tensor([0.4, 0.5], device=x.device)) * torch.as_tensor([[1, 2]]),
        lambda x: x.gather(-1, torch.tensor([[1, 0]])),
        lambda x: torch.tensor([1.0, 2.0]).mul_(x.sum()),
    ],
)
def test_tensors_that_the_function_makes_of_numbers(function: Any) -> None:
    report = opened(function, torch.rand(1, 2))
    assert report.kernels
    compared = report.compare()
    assert [graph.obstacle for graph in compared.graphs] == [""]
    assert not compared.differences


_CELL = """
import torch
from torch import nn

SCALE = {scale}

def helper(x):
    return torch.erf(x) * SCALE

class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return Squared.apply(helper(torch.relu(self.fc(x))))

model = nn.Sequential(Block(), nn.ModuleDict({{"in": Block()}})["in"])
model[0].register_forward_hook(lambda module, args, out: out + SCALE)

def squared(x):
    y = torch.sin(x)
    return y * y
"""


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.usefixtures("carried")
def test_containers_of_modules_of_a_notebook_read_its_variables(monkeypatch) -> None:
    for scale in (2.0, 3.0):
        main = ModuleType("__main__")
        exec(_CELL.format(scale=scale), vars(main))  # noqa: S102 - as a notebook runs a cell
        monkeypatch.setitem(sys.modules, "__main__", main)
        report = opened(main.model, torch.rand(4, 8), backward=True)
        assert not report.breaks
        assert f", {scale})" in report.graphs[0].aten.text


@pytest.mark.slow
def test_lines_of_a_cell_go_along() -> None:
    file, space = "/tmp/ipykernel_7/12.py", {"__name__": "__main__"}
    cell = _CELL.format(scale=2.0)
    linecache.cache[file] = len(cell), None, cell.splitlines(keepends=True), file
    exec(compile(cell, file, "exec"), space)  # noqa: S102
    function: Any = space["squared"]
    (graph,) = opened(function, torch.rand(4)).graphs
    assert "code: y = torch.sin(x)" in graph.fx.text
    assert [str(node.position) for node in graph.fx.nodes if node.name == "y"]
    found = kernellab.tracers(function, torch.rand(4)).set_index("tracer")
    assert found.outcome["jit.script"] == "whole"


def _trained(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(model(x), torch.ones(4, 8, device=x.device))


def _check_calls_of_tensors_of_a_gpu(place: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())
    x = torch.rand(4, 8)
    expected = [kernel.source for kernel in opened(_trained, model, x, backward=True).kernels]
    model, x = model.to(place), x.to(place)
    given = opened(_trained, model, x, backward=True)
    held = opened(lambda x: _trained(model, x), x, backward=True)
    for report in (given, held):
        assert [kernel.source for kernel in report.kernels] == expected
    assert x.device.type == "cuda"
    assert not given.compare().differences
    traced = kernellab.tracers(lambda x: x.sin(), x).set_index("tracer")
    assert traced.outcome["compile"] == "whole"


@pytest.mark.slow
def test_tensors_of_an_emulated_gpu_are_copied() -> None:
    with kernellab.interpreted(answers="gpu"):
        _check_calls_of_tensors_of_a_gpu("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_of_a_gpu_are_copied() -> None:
    _check_calls_of_tensors_of_a_gpu("cuda")


def test_what_cannot_be_pickled_is_captured() -> None:
    if not can_copy_this_process():
        pytest.skip("CUDA is in use here: no copy of this process can call torch")
    held = threading.Lock()
    assert opened(lambda x: (held, x + 1)[1], torch.rand(4)).kernels


def test_what_cannot_be_sent_is_named(monkeypatch: pytest.MonkeyPatch, raised) -> None:
    monkeypatch.setattr(reports, "can_copy_this_process", lambda: False)
    held = threading.Lock()
    raised(
        ArgumentError, kernellab.graph, lambda x: (held, x + 1)[1], torch.rand(4),
        match=r"_thread\.lock",
    )  # fmt: skip


@triton.jit
def _doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def _launching(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    _doubled[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out.sin()


@torch.library.triton_op("kernellab_tests::doubled", mutates_args=())
def _doubled_of(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(_doubled)[(3,)](x, out, x.numel(), BLOCK=128)
    return out


@torch.library.triton_op("kernellab_tests::doubled_by_name", mutates_args=())
def _doubled_by_name(x: torch.Tensor) -> torch.Tensor:
    doubled: torch.Tensor = torch.ops.kernellab_tests.doubled_inside(x)
    return doubled


@torch.library.triton_op("kernellab_tests::doubled_inside", mutates_args=())
def _doubled_inside(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(_doubled)[(3,)](x, out, x.numel(), BLOCK=128)
    return out


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "function",
    [
        _launching,
        pytest.param(lambda x: _doubled_of(x.sin()) + 1, marks=pytest.mark.slow),
        pytest.param(
            lambda x: torch.ops.kernellab_tests.doubled_by_name(x.sin()) + 1,
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.usefixtures("carried")
def test_the_users_own_kernel_is_one_of_the_kernels(function: Any) -> None:
    report = opened(function, torch.rand(300))
    assert any("_doubled" in kernel.source for kernel in report.kernels)
    assert not report.compare().differences


@torch.library.custom_op("kernellab_tests::halved", mutates_args=())
def _halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@_halved.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@_halved.register_kernel("cpu")
def _(x: torch.Tensor) -> torch.Tensor:
    return x / 4


_halved.register_autograd(lambda _, gradient: gradient / 2)


@pytest.mark.usefixtures("carried")
def test_custom_operations_arrive_with_their_kernels_and_gradients() -> None:
    x = torch.rand(4, requires_grad=True)
    report = opened(lambda x: _halved(x.sin()).sum(), x, backward=True)
    assert [graph.direction for graph in report.graphs] == ["forward", "backward"]
    assert "kernellab_tests.halved.default" in report.graphs[0].aten.counts()
    assert not report.compare("aten").differences


@pytest.mark.slow
@pytest.mark.usefixtures("carried")
def test_weight_norm_and_fp8_are_captured() -> None:
    normed = torch.nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
    assert opened(normed, torch.rand(4, 8), backward=True).kernels
    wide = torch.rand(16).to(torch.float8_e4m3fn)
    assert opened(lambda x: x.to(torch.float32) * 2, wide).kernels


def _scaled_by_value(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.usefixtures("carried")
def test_settings_of_this_process_hold() -> None:
    assert len(opened(_scaled_by_value, torch.rand(4)).breaks) == 1
    with _dynamo.config.patch(capture_scalar_outputs=True):
        assert len(opened(_scaled_by_value, torch.rand(4)).breaks) == 0
    with _inductor.patch(max_fusion_size=1):
        parted = opened(lambda x: (x.sin() * 2).sum(-1).cos(), torch.rand(32, 64))
    assert len(parted.kernels) > 1
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        made = opened(lambda x: x + torch.ones(4), torch.rand(4, dtype=torch.float32))
    finally:
        torch.set_default_dtype(before)
    assert made.graphs[0].aten.nodes[-2].dtype == "float64"


@pytest.mark.slow
@pytest.mark.usefixtures("carried")
def test_an_optimizers_step_is_captured() -> None:
    model = nn.Linear(8, 8)
    model(torch.rand(4, 8)).sum().backward()
    before = model.weight.detach().clone()
    optimizer = torch.optim.AdamW(model.parameters())
    report = opened(optimizer.step)
    assert report.kernels
    assert torch.equal(model.weight, before)
    assert not optimizer.state


@pytest.mark.slow
def test_a_compiled_model_is_captured_as_what_it_compiles() -> None:
    model = nn.Linear(8, 8)
    assert opened(torch.compile(model), torch.rand(4, 8)).graphs[0].aten.nodes
    model.compile()
    assert opened(model, torch.rand(4, 8)).graphs[0].aten.nodes


@pytest.mark.slow
def test_keywords_called_as_options_are_passed() -> None:
    x = torch.rand(1, 1, 4, 4)
    report = opened(F.interpolate, x, kwargs={"mode": "bilinear"}, scale_factor=2.0)
    assert report.kernels


def test_a_mistyped_option_is_named() -> None:
    with pytest.raises(OptionError, match="max_fusion_size"):
        kernellab.graph(torch.sin, torch.rand(4), options={"max_fusion_sise": 1})


class Tied(nn.Module):
    """An embedding whose weights are the last product's."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(1000, 64)
        self.out = nn.Linear(64, 1000, bias=False)
        self.out.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        x = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], is_causal=True)
        result: torch.Tensor = self.out(F.gelu(x[:, 0]))
        return result


@pytest.mark.slow
def test_models_without_values_give_the_code_of_models_with_values() -> None:
    ids = torch.zeros(2, 16, dtype=torch.int64)
    expected = [kernel.source for kernel in opened(Tied(), ids, backward=True).kernels]
    with torch.device("meta"):
        empty = Tied()
    cases = [(empty, ids.to("meta")), (empty, ids)]
    if can_copy_this_process():  # fake tensors cannot be pickled
        with FakeTensorMode():
            cases.append((Tied(), torch.zeros(2, 16, dtype=torch.int64)))
    for model, given in cases:
        report = opened(model, given, backward=True)
        assert [kernel.source for kernel in report.kernels] == expected
    assert empty.tokens.weight.is_meta


def _asking_for_a_gpu(x: torch.Tensor) -> torch.Tensor:
    if not torch.cuda.is_available():
        return x - 1
    places = torch.arange(16, device="cuda")
    return (x.cuda() * places).to("cuda:0") + torch.ones(16, device=torch.device("cuda"))


@pytest.mark.slow
def test_the_call_sees_a_gpu() -> None:
    report = opened(_asking_for_a_gpu, torch.rand(4, 16))
    assert "aten.mul.Tensor" in report.graphs[0].aten.counts()
    assert len(report.kernels) == 1
    assert not report.compare().differences


@pytest.mark.slow
def test_autocast_of_a_gpu_casts() -> None:
    linear = nn.Linear(16, 16)

    def trained(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            result: torch.Tensor = F.softmax(linear(x), -1)
        return result

    report = opened(trained, torch.rand(4, 16), backward=True)
    dtypes = {node.target: node.dtype for node in report.graphs[0].aten.nodes}
    assert dtypes["aten.addmm.default"] == "bfloat16"
    assert dtypes["aten.exp.default"] == "float32"


BIG = """
import re, resource, torch, kernellab
from torch import nn
from torch.nn import functional as F

class Layer(nn.Module):
    def __init__(self, size=8192, heads=64, of_keys=8, inner=28672):
        super().__init__()
        self.heads, width = heads, size // heads
        self.norms = nn.ModuleList(nn.RMSNorm(size) for _ in range(2))
        self.q, self.kv = nn.Linear(size, size, False), nn.Linear(size, 2 * of_keys * width, False)
        self.o, self.gate = nn.Linear(size, size, False), nn.Linear(size, 2 * inner, False)
        self.down = nn.Linear(inner, size, False)

    def forward(self, x):
        y = self.norms[0](x)
        q = self.q(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (-1, q.shape[-1])).transpose(1, 2).chunk(2, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        gate, up = self.gate(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)

with torch.device("meta"):
    model = nn.Sequential(Layer(), Layer()).to(torch.bfloat16)
    x = torch.empty(4, 4096, 8192, dtype=torch.bfloat16, requires_grad=True)
report = kernellab.graph(model, x, backward=True, gpu="h200")
assert not report.error and [bool(graph.kernels) for graph in report.graphs] == [True, True]
# The process's own ru_maxrss begins with that of the process that started it.
(own,) = re.findall(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.slow
def test_two_layers_of_a_70b_model_need_no_memory_for_parameters() -> None:
    command = [sys.executable, "-c", BIG]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert max(int(kilobytes) * 1024 for kilobytes in found) < 3e9, "the parameters are 3.4 GB"
