"""`torch.autocast("cuda")` in an emulated GPU has the types of torch's own tests of it."""

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional

import kernellab
from kernellab.errors import UnsupportedOperation
from kernellab.torch_api import emulation

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU answers for itself")

LOWER, WIDE = torch.float16, torch.float32

MODULES: dict[str, Any] = {
    "torch": torch,
    "methods": torch.Tensor,
    "nn": torch._C._nn,
    "linalg": vars(torch._C)["_linalg"],
}


@pytest.fixture
def lists(gpu: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The operations that torch's tests try under autocast, with arguments on the GPU."""
    needed = types.ModuleType("common_utils")  # the real one imports a package only of tests
    vars(needed).update(TEST_WITH_ROCM=False, TestCase=object)
    monkeypatch.setitem(sys.modules, "torch.testing._internal.common_utils", needed)
    name = "torch.testing._internal.autocast_test_lists"
    monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.import_module(name).AutocastTestLists(torch.device("cuda:0"))
    monkeypatch.delitem(sys.modules, name)
    return found


def cases(lists: Any, kind: str) -> Iterator[tuple[str, Callable[..., Any], Any, Any]]:
    """Name, function, arguments and keywords of a list's operations."""
    for owner, module in MODULES.items():
        for name, args, *rest in getattr(lists, f"{owner}_{kind}", ()):
            if name.startswith("cudnn") or isinstance(args, str):
                continue  # of a build for CUDA alone; not called as it is written
            keywords = rest[0] if rest and isinstance(rest[0], dict) else {}
            yield name, getattr(module, name, None) or getattr(torch.Tensor, name), args, keywords


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for item in value for one in tensors(item)] if isinstance(value, tuple) else []


def cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cpu().to(dtype) if value.is_floating_point() else value.cpu()
    return type(value)(cast(item, dtype) for item in value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("kind", "dtype"), [("fp16", LOWER), ("fp32", WIDE), ("need_autocast_promote", WIDE)]
)
def test_operations_have_the_types_of_a_gpu(lists, kind, dtype) -> None:
    tried = 0
    for name, function, args, keywords in cases(lists, kind):
        with torch.autocast("cuda", dtype=LOWER):
            found = tensors(function(*args, **keywords))
        assert [one.dtype for one in found] == [dtype] * len(found), name
        assert all(one.is_cuda for one in found), name
        wanted = tensors(function(*cast(args, dtype), **keywords))
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one.cpu(), other, equal_nan=True, msg=name)
        tried += 1
    assert tried >= 8


def test_every_operation_of_torchs_autocast_has_a_policy() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    wanted = {name.removeprefix("aten::") for name in registered if "cudnn" not in name}
    assert set(emulation.policies()) == wanted


def test_types_of_a_model(gpu) -> None:
    half = torch.randn(4, 4, device="cuda", dtype=LOWER)
    weight: Any = torch.randn(4, 4, device="cuda", requires_grad=True)
    with torch.autocast("cuda"):
        attention = functional.softmax(half @ weight, -1)
        assert attention.dtype == WIDE
        assert functional.layer_norm(half, (4,)).dtype == WIDE
        assert half.norm().dtype == WIDE
        assert functional.gelu(half).dtype == LOWER
        assert half.softmax(-1, dtype=LOWER).dtype == LOWER
        assert (half.double().exp().dtype, half.cpu().exp().dtype) == (torch.float64, LOWER)
        with torch.autocast("cuda", enabled=False):
            assert half.exp().dtype == LOWER
        attention.sum().backward()
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            functional.binary_cross_entropy(half.sigmoid(), half.sigmoid())
    assert weight.grad.dtype == WIDE
    assert half.exp().dtype == LOWER
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (weight @ weight).dtype == torch.bfloat16


def test_functions_that_an_operator_calls_are_cast(gpu) -> None:
    cond: Any = importlib.import_module("torch._higher_order_ops.cond").cond_op
    x = torch.ones(4, 4, device="cuda")
    with torch.autocast("cuda"):
        (product,) = cond(x.sum() > 0, lambda x: (x @ x,), lambda x: (x,), (x,))
    assert product.dtype == LOWER


def test_nothing_is_cast_afterwards() -> None:
    key: Any = vars(torch._C.DispatchKey)["AutocastIPU"]
    with kernellab.interpreted(answers="gpu"), torch.autocast("cuda"):
        assert torch._C._dispatch_tls_is_dispatch_key_included(key)
    assert not torch._C._dispatch_tls_is_dispatch_key_included(key)
    assert torch._C._dispatch_tls_is_dispatch_key_excluded(key)
    half = torch.ones(2, dtype=LOWER)
    assert half.exp().dtype == LOWER
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


def test_a_torch_without_headers_is_refused(gpu, monkeypatch) -> None:
    monkeypatch.setattr(emulation, "_HEADER", emulation._HEADER.with_name("none.h"))
    emulation.policies.cache_clear()
    emulation._register.cache_clear()
    try:
        with pytest.raises(UnsupportedOperation, match=r"none\.h"):
            torch.autocast("cuda").__enter__()
    finally:
        torch.set_autocast_enabled("cuda", False)
        emulation.policies.cache_clear()
