"""`kernellab.minimize`: the smallest launch that fails as a given one does."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.compiler import ASTSource

import kernellab
from kernellab.checker.launch_scripts import LaunchScript, ScriptTensor, fewer_than
from kernellab.checker.minimize import minimal, without_statements
from kernellab.errors import ArgumentError
from tests.kernels.equal import polynomial


@triton.jit
def doubled(x):
    return x * 2


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, alpha, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=offsets <= n)
    total = doubled(x) + y
    for _ in range(3):
        total += 1
    if BLOCK > 4:
        total *= alpha
    tl.store(z_ptr + offsets, total, mask=inside)


@triton.jit
def copy(x_ptr, z_ptr, n, alpha, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    unused = x * alpha
    tl.store(z_ptr + offsets, x, mask=inside)


@triton.jit
def scale(x_ptr, z_ptr, n, alpha, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x * alpha, mask=offsets < n)


@triton.jit
def mismatched(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    zeros = tl.zeros((BLOCK * 2,), tl.float32)
    both = x + zeros
    tl.store(x_ptr + offsets, both)


def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def tensors(count: int) -> list[torch.Tensor]:
    return [torch.rand(1000) for _ in range(count)]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "script.py"
    file.write_text(script)
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)


# The search, with failures that are decided without a run


BODY = """
    a = 1
    b = 2
    if n:
        c = a
        d = 4
    else:
        e = 5
    for i in range(n):
        f = i + b
        while f:
            g = 6; h = 7
    tl.store(x, b)
"""


def lines_of(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()[1:]}


@pytest.mark.parametrize(
    ("needed", "left"),
    [
        (["d = 4"], {"d = 4"}),
        (["f = i + b"], {"b = 2", "i = 0", "f = i + b"}),
        (
            ["e = 5", "tl.store(x, b)"],
            {"b = 2", "if n:", "pass", "else:", "e = 5", "tl.store(x, b)"},
        ),
        (["g = 6"], {"b = 2", "i = 0", "f = i + b", "g = 6; h = 7"}),
        ([], {"pass"}),
    ],
)
def test_only_the_statements_remain_that_the_failure_needs(needed, left) -> None:
    tried = []

    def fails(text: str) -> bool:
        tried.append(text)
        names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        assert names <= {"a", "b", "c", "d", "e", "f", "g", "h", "i", "n", "x", "tl", "range"}
        return all(any(words in line for line in text.splitlines()) for words in needed)

    text = without_statements(f"def kernel(x, n):{BODY}", fails)
    assert left - lines_of(text) <= {"if n:", "pass", "else:"}
    assert lines_of(text) <= left
    assert len(tried) < 60


@pytest.mark.parametrize("least", [1, 2, 37, 100, 999])
def test_sizes_become_the_smallest_that_fail(least) -> None:
    smallest, tries = 1000, 0
    while True:
        for fewer in fewer_than(smallest):
            tries += 1
            if fewer >= least:
                smallest = fewer
                break
        else:
            break
    assert smallest == least
    assert tries < 130


def script_of(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> LaunchScript:
    from kernellab.checker.minimize import _MINIMIZE
    from kernellab.launch.preparation import prepare_bound

    launch = kernellab.bind(kernel, grid, *args, **keywords)
    return LaunchScript.of(prepare_bound(launch, None, _MINIMIZE), None, "")


def test_tensors_shrink_with_their_sizes_and_strides() -> None:
    x, y = torch.rand(48, 20).T, torch.rand(48 * 20)
    script = script_of(add, lambda meta: (meta["n"], 2), x, y, y, 48, 960, BLOCK=16)
    smaller = minimal(script, lambda made, exactly=False: made.values["n"] >= 3 and not exactly)
    x_ptr, y_ptr = smaller.values["x_ptr"], smaller.values["y_ptr"]
    assert smaller.values["n"] == 3
    assert smaller.values["alpha"] in (60, 1)
    assert x_ptr.shape[1] == 3
    assert x_ptr.strides == (1, x_ptr.shape[0])
    assert y_ptr.shape == (smaller.values["alpha"] if smaller.values["alpha"] > 1 else 1,)
    assert smaller.sizes == (1, 1, 1)
    assert x_ptr.recipe == "zeros"


@pytest.mark.parametrize(
    "tensor",
    [
        torch.rand(3, 5).T, torch.rand(40, 9)[::2, 1:4], torch.tensor([[1, -2]], dtype=torch.int16),
        torch.tensor([float("nan"), 2.5]).bfloat16(), torch.rand(500).to(torch.float8_e4m3fn),
        torch.zeros(0, 4), torch.tensor(3.0),
    ],
)  # fmt: skip
def test_a_tensor_is_written_with_its_contents(tensor) -> None:
    written = ScriptTensor.of(tensor)
    made = eval(written.text(), {name: __import__(name) for name in ("torch", "base64", "zlib")})
    assert made.dtype == tensor.dtype
    assert made.stride() == tensor.stride() or not tensor.numel()
    torch.testing.assert_close(made, tensor, rtol=0, atol=0, equal_nan=True)


@pytest.mark.slow
def test_a_finding(tmp_path) -> None:
    x, y, z = tensors(3)
    found = kernellab.minimize(add, (4,), x, y, z, 1000, 0.5, BLOCK=256, num_warps=8, by="check")
    assert found.failure == "out-of-bounds in y_ptr"
    assert found.is_complete
    assert found.tries < 40
    assert "y_ptr = torch.zeros(1)" in found.script
    for gone in ("alpha", "for ", "if ", "num_warps", "# "):
        assert gone not in found.script
    finished = run(found.script, tmp_path)
    assert "out-of-bounds" in finished.stdout
    assert found.message in finished.stdout


@pytest.mark.slow
def test_a_wrong_result(tmp_path) -> None:
    x, z = tensors(2)
    found = kernellab.minimize(copy, (4,), x, z, 1000, 2.0, BLOCK=256, expect=twice)
    assert found.failure == "wrong-result in z_ptr"
    assert "unused" not in found.script
    assert "x_ptr = torch.ones(1)" in found.script
    assert "wrong-result" in run(found.script, tmp_path).stdout


@triton.jit
def summed(x_ptr, z_ptr, n, alpha, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        unused = offsets + n
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(z_ptr + offsets, x * alpha + x * x, mask=offsets < n)


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("expect", [scale, polynomial, twice])
def test_a_difference_from_another_kernel_or_a_function(expect, tmp_path) -> None:
    x, z = tensors(2)
    launch = kernellab.bind(summed, (1,), x, z, 1000, 2.0, BLOCK=128)
    other: Any = expect
    by: Any = "equal"
    if expect is scale:
        grid = lambda meta: (triton.cdiv(meta["n"], 256),)  # noqa: E731
        other, by = kernellab.bind(scale, grid, x, z, 1000, 2.0, BLOCK=256), None
    elif expect is not twice:
        other = kernellab.bind(polynomial, (8,), x, z, 1000, BLOCK=128)
    found = kernellab.minimize(launch, other, by=by)
    assert (found.failure, found.is_complete) == ("different in z_ptr", True)
    for gone in ("unused", "for ", "from ", "1000"):
        assert gone not in found.script
    assert "different" in run(found.script, tmp_path).stdout


@pytest.mark.slow
def test_what_triton_refuses(tmp_path) -> None:
    found = kernellab.minimize(mismatched, (1,), torch.rand(64), 64, BLOCK=64)
    assert found.failure.startswith("CompilationError: ")
    assert "kernellab" not in found.script
    assert "torch" not in found.script
    assert "tl.store" not in found.script
    finished = run(found.script, tmp_path)
    assert finished.returncode == 1
    assert "incompatible dimensions" in finished.stderr


def crash(source: Any) -> None:
    if "tl.load" in source.fn.src:
        os.write(2, b"x.cpp:12: Assertion `is_fine' failed.\n")
        os.abort()


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "failure"), [(crash, "crash: signal SIGABRT"), (None, "hang")])
def test_the_compiler_crashes_or_hangs(fault, failure, monkeypatch) -> None:
    make_ir = ASTSource.make_ir

    def planted(source: Any, *args: Any) -> Any:
        if fault is not None:
            fault(source)
        while fault is None:
            pass
        return make_ir(source, *args)

    monkeypatch.setattr(ASTSource, "make_ir", planted)
    x, z = tensors(2)
    seconds = 10 if fault is None else 120
    found = kernellab.minimize(copy, (4,), x, z, 1000, 2.0, BLOCK=256, seconds=seconds)
    assert found.failure.startswith(failure)
    assert found.is_complete == (fault is not None)
    if fault is not None:
        assert "Assertion" in found.failure
        assert "tl.store" not in found.script


def squares(module: Any) -> None:
    for op in module.walk():
        if op.name == "arith.mulf":
            op.operands[1] = op.operands[0]


@pytest.mark.slow
def test_a_wrong_pass_that_is_registered_is_in_the_script(tmp_path) -> None:
    x, z = tensors(2)
    launch = kernellab.bind(scale, (4,), x, z, 1000, 2.0, BLOCK=256)
    with kernellab.register_pass(squares, after="ttgir.coalesce"):
        found = kernellab.minimize(launch, by="validate", target="sm_80", tries=6)
    assert (found.tries, found.is_complete) == (6, False)
    assert "search was ended" in repr(found)
    assert found.failure == "wrong pass: ttgir.squares"
    assert "n=1," in found.script
    assert "ttgir.squares                    different" in run(found.script, tmp_path).stdout
    with (
        kernellab.register_pass(lambda module: None, after="coalesce"),
        pytest.raises(ArgumentError),
    ):
        kernellab.minimize(launch, by="validate", target="sm_80")


def test_what_cannot_be_minimized(raised) -> None:
    x, z = tensors(2)
    launch = kernellab.bind(copy, (4,), x, z, 1000, 2.0, BLOCK=256)
    raised(ArgumentError, kernellab.minimize, launch, by="check")
    raised(ArgumentError, kernellab.minimize, launch, by="equal")
    other = kernellab.bind(copy, (1,), x.clone(), z, 1000, 2.0, BLOCK=1024)
    raised(ArgumentError, kernellab.minimize, launch, expect=other)
    raised(ArgumentError, kernellab.minimize, launch, by="check", expect={"z_ptr": x})
    raised(ArgumentError, kernellab.minimize, launch, by="check", expect=lambda x: x)
    overlapping = kernellab.bind(copy, (4,), x, x[:100], 100, 2.0, BLOCK=256)
    raised(ArgumentError, kernellab.minimize, overlapping, by="check")
