"""Kernels and arguments that travel to other processes."""

from __future__ import annotations

import linecache
import subprocess
import sys
from typing import Any

import pytest
import torch
import triton
from syrupy.assertion import SnapshotAssertion
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.tools.tensor_descriptor import TensorDescriptor

from kernellab import triton_api
from kernellab.compiler.binding import bind
from kernellab.errors import ArgumentError
from kernellab.launch.tile_kernel import tile_kernels_in
from kernellab.records import Target
from kernellab.triton_api.kernel_contents import pack, unpack
from kernellab.tuning.assignments import Arguments, ship
from tests.kernels.tuned import double

CELL = """
import triton
import triton.language as tl

FACTOR = tl.constexpr(3)

@triton.jit
def times(x, OTHER: tl.constexpr):
    return x * FACTOR * OTHER

def make(OFFSET: tl.constexpr):
    @triton.jit(do_not_specialize=["n"])
    def shifted(x_ptr, n, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        tl.store(x_ptr + lanes, times(tl.load(x_ptr + lanes), 2) + OFFSET, mask=lanes < n)
    return shifted

kernel = make(tl.constexpr(5))
"""

THERE = """
import sys
from kernellab.triton_api.kernel_contents import unpack
import kernellab
kernel = unpack(sys.stdin.buffer.read())
kept = kernellab.compile(kernel, "*i32:16", "i32", BLOCK=16, record="stages")
print(kernel.cache_key)
print("muli" in kept.stages["ttir"].text or "shli" in kept.stages["ttir"].text)
print([parameter.do_not_specialize for parameter in kernel.params])
print(kept.stages["ttir"].text.count("a cell of mine"))
"""


@pytest.mark.slow
def test_a_kernel_of_a_cell_arrives_with_helpers_captured_values_and_lines() -> None:
    file = "a cell of mine"
    linecache.cache[file] = (len(CELL), None, CELL.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": "__main__"}
    with tile_kernels_in(file, Target("cuda", "90")):
        exec(compile(CELL, file, "exec"), scope)  # noqa: S102
    kernel = scope["kernel"]
    there = subprocess.run(
        [sys.executable, "-c", THERE], input=pack(kernel), capture_output=True, check=True
    )
    key, multiplies, not_specialized, mentions = there.stdout.decode().splitlines()
    assert key == kernel.cache_key  # so Triton's cache has it under the same name
    assert multiplies == "True"
    assert not_specialized == "[False, True, False]"
    assert int(mentions) >= 1


def test_a_kernel_that_comes_back_compiles_to_the_same() -> None:
    again = unpack(pack(double))
    assert again is not double
    assert again.cache_key == double.cache_key
    assert again.fn.__globals__.keys() >= {"tl", "scaled", "SCALE"}


def test_what_is_compiled_for_a_launch_lies_where_a_launch_looks(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    target = Target("cuda", "90")
    types = ("*fp32:16", "*fp32:16", "i32:16")
    call = bind(double, types, {"BLOCK": 64}, target, options={"num_warps": 2})
    triton_api.compile_natively(double, call.specialization, target, call.options, for_launch=True)
    backend, gpu = make_backend(triton_api.gpu_target(target)), triton_api.gpu_target(target)
    # As JITFunction.run compiles: all options, parsed.
    given = {"num_warps": 2, "debug": False, "instrumentation_mode": ""}
    one = call.specialization
    source = ASTSource(double, dict(one.signature), dict(one.constants), dict(one.attributes))
    before = sorted(tmp_path.iterdir())
    triton.compile(source, target=gpu, options=backend.parse_options(given).__dict__)
    assert sorted(tmp_path.iterdir()) == before


def test_what_cannot_be_sent_is_said(messages: SnapshotAssertion) -> None:
    with pytest.raises(ArgumentError) as refused:
        pack({"x": lambda: 1})
    assert refused.value == messages


def test_arguments_arrive_with_shared_memory_offsets_and_strides() -> None:
    whole = torch.arange(32, dtype=torch.float32).reshape(4, 8)
    view, turned = whole[1:, 2:5], whole.t()
    half = torch.ones(8, dtype=torch.bfloat16)
    described = TensorDescriptor(whole, [4, 8], [8, 1], [2, 2])
    sent = ship(
        {"view": view, "pair": (turned, 3), "half": half, "d": described, "empty": torch.empty(0)}
    )
    assert len(sent.storages) == 3
    there = Arguments(sent, torch.device("cpu"))
    values = there.values
    assert torch.equal(values["view"], view)
    assert values["view"].stride() == view.stride()
    assert values["view"].storage_offset() == view.storage_offset()
    assert values["half"].dtype == torch.bfloat16
    values["view"][0, 0] = 100  # one memory behind all three
    assert values["pair"][0][2, 1] == 100
    assert values["d"].base[1, 2] == 100
    assert whole[1, 2] == 10
    changed = there.contents()
    there.restore()
    assert not there.holds(changed)
    assert torch.equal(values["view"], view)


def test_equal_contents_have_equal_digests() -> None:
    x = torch.arange(5.0)
    assert ship({"x": x}).digest == ship({"x": x.clone()}).digest
    assert ship({"x": x}).digest != ship({"x": x + 1}).digest
