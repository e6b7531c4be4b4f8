"""What is in lanes that a mask switches off: what is said of them, beside the compiled code."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.checker.records import Finding
from tests.checker.launches import normal, zeros
from tests.kernels.interp.waiting import locked_by_address
from tests.support import versions

# fmt: off


@triton.jit
def copies(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    tl.store(out_ptr + lanes, x)


@triton.jit
def copies_groups(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Its mask is the same for eight lanes together, so that they may be loaded at once."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes // 8 < n)
    tl.store(out_ptr + lanes, x)


@triton.jit
def copies_by_wide_indices(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.load(index_ptr + lanes), mask=lanes < n)
    tl.store(out_ptr + lanes, x)


@triton.jit
def product(a_ptr, b_ptr, out_ptr, m, k, BLOCK: tl.constexpr):
    """Its loads are pipelined: asynchronous copies where the GPU has them."""
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        a = tl.load(a_ptr + rows * k + columns + start, mask=rows < m)
        b = tl.load(b_ptr + (rows + start) * BLOCK + columns, mask=columns < m)
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows * BLOCK + columns, total)


@triton.jit
def total_of_a_row(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + lanes, mask=lanes < n)))


@triton.jit
def smallest_of_a_row(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.min(tl.load(x_ptr + lanes, mask=lanes < n)))


@triton.jit
def softmax(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + lanes, e / tl.sum(e), mask=lanes < n)


@triton.jit
def total_of_a_block(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
    tl.store(out_ptr, tl.sum(tl.load(block, boundary_check=(0,))))


@triton.jit
def copies_a_block(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x_ptr, (n, n), (n, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    out = tl.make_block_ptr(out_ptr, (n, n), (n, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    tl.store(out, tl.load(block))


@triton.jit
def copies_by_descriptors(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, (n,), (1,), (BLOCK,))
    out = tl.make_tensor_descriptor(out_ptr, (n,), (1,), (BLOCK,))
    for start in range(0, n, BLOCK):
        out.store([start], x.load([start]))


# fmt: on

NVIDIA = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
AMD = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


def compiled_lines(
    stage: str, kernel: Any, signature: Sequence[str], target: str, **constants: Any
) -> list[str]:
    compiled: Any = kernellab.compile(
        kernel, *signature, target=target, stop_after=stage, record="stages", **constants
    )
    return [line.strip() for line in compiled.stages[stage].text.splitlines()]


def masked_loads(ptx: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Of each predicated load from global memory: its line's number, the registers it writes."""
    for number, line in enumerate(ptx):
        if re.match(r"@!?%p\d+ ld\.global", line):
            registers = line[line.index("{") if "{" in line else line.index("%r") :]
            yield number, re.findall(r"%\w+", registers.split("[")[0])


def set_just_before(ptx: list[str], number: int, register: str) -> str:
    """What a register is set to last before a line, within the straight code that leads there."""
    for line in reversed(ptx[:number]):
        assert not re.match(r"\$|(@\S+ )?bra", line), line
        if found := re.match(rf"mov\.[bu]\d+ ?\s*{re.escape(register)}, (\S+);", line):
            return found[1]
        assert not re.search(rf"^\S+ \s*{re.escape(register)}\b", line), line
    raise AssertionError(f"{register} is not set before line {number}")


TYPES = ("i1", "i8", "fp8e4nv", "i16", "fp16", "bf16", "i32", "fp32", "i64", "fp64")


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("target", NVIDIA)
def test_ptx_puts_zeros_in_front_of_every_masked_load(target) -> None:
    widths = set()
    for kernel in (copies, copies_groups):
        for kind in TYPES:
            if kind == "fp8e4nv" and target in ("sm_75", "sm_80", "sm_86"):
                continue
            signature = (f"*{kind}:16", f"*{kind}:16", "i32")
            ptx = compiled_lines("ptx", kernel, signature, target, BLOCK=1024)
            loads = list(masked_loads(ptx))
            assert loads, kind
            for number, registers in loads:
                assert registers
                found = {set_just_before(ptx, number, one) for one in registers}
                assert found <= {"0x0", "0"}, (target, kind, found)
                widths.add(ptx[number].split()[1])
    assert {"ld.global.b8", "ld.global.b16", "ld.global.b32", "ld.global.v4.b32"} <= widths


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", NVIDIA[4:] + NVIDIA[1:4])
def test_asynchronous_copies_fill_with_zeros(target) -> None:
    """cp.async fills what it does not read with zeros (PTX ISA, cp.async, src-size)."""
    signature = ("*fp16:16", "*fp16:16", "*fp32:16", "i32:16", "i32:16")
    ptx = compiled_lines("ptx", product, signature, target, BLOCK=64, num_stages=3)
    copies = [line for line in ptx if re.match(r"(@\S+ )?cp\.async\.c[ag]", line)]
    assert copies
    for line in copies:
        assert line.startswith("cp.async"), f"predicated, so what it leaves out stays: {line}"
        size, read = re.findall(r", (0x10|0x8|0x4), (%r\d+);", line)[0]
        (chosen,) = (one for one in ptx if re.match(rf"selp\.b32 \s*{read},", one))
        assert chosen.endswith((f"0, {chosen.rpartition(' ')[2]}",)), chosen
        assert int(size, 16)


@pytest.mark.parametrize("target", AMD)
def test_amd_loads_into_registers_give_zeros(target) -> None:
    """A branch meets zeros; buffer loads out of range read zero (AMD's ISA documents)."""
    signature = ("*fp32:16", "*i64:16", "*fp32:16", "i32")
    branched = compiled_lines("llir", copies_by_wide_indices, signature, target, BLOCK=128)
    (meets,) = (one for one in branched if " phi " in one)
    assert "zeroinitializer" in meets
    plain = ("*fp32:16", "*fp32:16", "i32")
    buffered = compiled_lines("llir", copies, plain, target, BLOCK=128)
    (load,) = (one for one in buffered if re.search(r"= tail call .*buffer\.load", one))
    offset = re.findall(r"i32 (%\d+)", load)[0]
    (chosen,) = (one for one in buffered if one.startswith(f"{offset} = select"))
    assert "i32 -2147483648" in chosen


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_amd_asynchronous_copies_leave_shared_memory_as_it_was(target, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", "1")
    signature = ("*fp16:16", "*fp16:16", "*fp32:16", "i32:16", "i32:16")
    llir = compiled_lines("llir", product, signature, target, BLOCK=64, num_stages=3)
    assert any(re.search(r"load(\.async)?\.lds", line) for line in llir)
    assert not any(re.match(r"store .* zeroinitializer, ptr addrspace\(3\)", one) for one in llir)


def missing(kernel: Any, x: torch.Tensor, target: str) -> Finding:
    found = kernellab.check(kernel, (1,), x, zeros(128), 100, BLOCK=128, target=target)
    (one,) = found.of_kind("missing-other")
    return one


@pytest.mark.parametrize(
    ("target", "severity"),
    [
        *((target, "note") for target in ("sm_75", "sm_90", "sm_120", "gfx90a", "gfx1100")),
        *((target, "warning") for target in ("gfx942", "gfx950")),
    ],
)
def test_zeros_in_a_sum_are_a_note_where_the_target_puts_them_there(
    target, severity, messages
) -> None:
    """Asynchronous copies of the others may leave what was there."""
    one = missing(total_of_a_row, normal(100), target=target)
    assert one.severity == severity
    assert target in one.why or severity == "warning"
    assert one.why == messages


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kernel", "x"),
    [
        (smallest_of_a_row, normal(100).abs() + 1),
        (smallest_of_a_row, torch.arange(5, 105, dtype=torch.int32)),
        (softmax, normal(100, dtype=torch.float16)),
    ],
    ids=["minimum", "integers", "softmax"],
)
def test_zeros_that_take_part_are_a_fault_on_any_target(kernel, x, messages) -> None:
    one = missing(kernel, x, target="sm_90")
    assert one.severity == "warning"
    assert one.why == messages


@pytest.mark.slow
def test_integers_in_a_sum_do_not_show_as_zeros_that_take_part() -> None:
    for kind in (torch.int8, torch.uint8, torch.int32):
        one = missing(total_of_a_row, torch.ones(100, dtype=kind), target="sm_90")
        assert one.severity == "note"


pointers_to_blocks = pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")


@pointers_to_blocks
@pytest.mark.skipif(not versions.HAS_BLOCK_POINTERS, reason="Triton 3.9 has none")
def test_advice_for_block_pointers_is_theirs() -> None:
    one = missing(total_of_a_block, normal(100), target="sm_90")
    assert "padding_option=" in one.message
    assert 'padding_option="zero"' in one.advice
    assert "other=" not in one.message + one.advice
    outside = kernellab.check(copies_a_block, (1,), normal(12, 12), zeros(12, 12), 12, BLOCK=16)
    assert outside.kinds == ("out-of-bounds", "out-of-bounds")
    for finding in outside:
        assert "boundary_check=(0, 1)" in finding.advice
        assert "mask=" not in finding.advice
    loads = [one for one in outside if one.message.startswith("this load reads")]
    assert [one.argument for one in loads] == ["x_ptr"]
    assert all(('padding_option="zero"' in one.advice) == (one in loads) for one in outside)


def test_advice_for_descriptors_is_theirs(messages) -> None:
    found = kernellab.check(copies_by_descriptors, (1,), normal(64), zeros(96), 96, BLOCK=32)
    (one,) = found
    assert (one.kind, one.argument) == ("out-of-bounds", "x_ptr")
    assert one.advice == messages
    assert "mask=" not in one.advice


# Detectors hear of accesses through addresses as of any others, where they go to one tensor


def addresses_of(*tensors: torch.Tensor) -> torch.Tensor:
    return torch.tensor([tensor.data_ptr() for tensor in tensors])


@pytest.mark.slow
def test_a_lock_out_of_a_list_of_pointers_orders_programs() -> None:
    locks = [torch.zeros(1, dtype=torch.int32) for _ in range(2)]
    total = torch.zeros(2, dtype=torch.int32)
    found = kernellab.check(locked_by_address, (7,), addresses_of(*locks), total, RELEASES=True)
    assert not found, str(found)


@triton.jit
def logarithms(outs_ptr, x_ptr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    out = tl.load(outs_ptr + program).to(tl.pointer_type(tl.float32))
    tl.store(out + lanes, tl.log(tl.load(x_ptr + program * BLOCK + lanes)))


def test_infinity_that_is_stored_through_a_pointer_from_memory() -> None:
    out, x = torch.zeros(4), torch.tensor([1.0, 2.0, 0.0, 3.0])
    (finding,) = kernellab.check(logarithms, (1,), addresses_of(out), x, BLOCK=4)
    assert (finding.kind, finding.index, finding.lane) == ("infinity", (2,), (2,))
    assert "memory[2] becomes -inf" in finding.message
