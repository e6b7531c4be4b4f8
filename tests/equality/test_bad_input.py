"""Bad input of `equal`, `validate`, `check(sizes=)`, passes: nothing undecided reads "equal"."""

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.cli.demo import kernels
from kernellab.equality import functions
from kernellab.equality.records import Equality
from kernellab.errors import ArgumentError, CompileError, GridError, OptionError
from tests.support.equal_expressions import SIZE, compared

ANY = (1, None)


@triton.jit
def ordered(x_ptr, count_ptr, out_ptr, HOW: tl.constexpr):
    """Results that show which program came first, or not."""
    program = tl.program_id(0)
    x = tl.load(x_ptr + program)
    if HOW == "exchange":
        tl.atomic_xchg(out_ptr, x)
    elif HOW == "exchange of integers":
        tl.atomic_xchg(count_ptr, program)
    elif HOW == "compare and swap":
        tl.atomic_cas(count_ptr, 0, program + 1)
    elif HOW == "ticket":
        tl.store(out_ptr + tl.atomic_add(count_ptr, 1), x)
    elif HOW == "any ticket":
        tl.store(out_ptr + program, tl.where(tl.atomic_add(count_ptr, 1) >= 0, x, 0.0))
    elif HOW == "lock":
        while tl.atomic_cas(count_ptr, 0, 1) == 1:
            pass
        tl.store(out_ptr, tl.load(out_ptr, volatile=True) + x)
        tl.atomic_xchg(count_ptr, 0)


@triton.jit
def scaled(x_ptr, out_ptr, n, first, BLOCK: tl.constexpr, STORES: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0) / 2
    if STORES:
        tl.store(out_ptr + at, x, mask=(at >= first) & (at < n))


@triton.jit
def halved(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    while x > 0.25:
        x *= 0.5
    tl.store(out_ptr, x)


@triton.jit
def gathered(x_ptr, i_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(i_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, tl.load(x_ptr + index), mask=at < n)


def in_order(how: str, programs: int = 6) -> Any:
    count = torch.zeros(1, dtype=torch.int32)
    launch = kernellab.bind(ordered, (programs,), torch.randn(6), count, torch.zeros(6), HOW=how)
    return kernellab.equal(launch, launch)


def scaling(first: int = 0, stores: bool = True, programs: int = 2) -> Any:
    given = torch.randn(SIZE), torch.zeros(SIZE), SIZE, first
    return kernellab.bind(scaled, (programs,), *given, BLOCK=32, STORES=stores)


def beside(function: Any, **options: Any) -> Any:
    return kernellab.equal(scaling(), function, **options)


def softmax(function: Any) -> Any:
    x, out = torch.randn(16, 100), torch.zeros(16, 100)
    launch = kernellab.bind(kernels.softmax, (16,), x, out, 100, 100, BLOCK=128)
    return kernellab.equal(launch, function)


def sized(second: int = 48, grid: Any = None, **sizes: Any) -> Any:
    x, index, out = torch.rand(80), torch.zeros(80, dtype=torch.int32), torch.zeros(80)
    grid = grid or (lambda meta: (-(-meta["n"] // 16),))
    return kernellab.check(gathered, grid, x, index, out, 80, second, BLOCK=16, sizes=sizes)


def raises(module: Any) -> None:
    raise ValueError(module.name)


def goes_on(module: Any) -> None:
    while module:
        pass


def adds_pointers(module: Any) -> None:
    for op in module.walk():
        if op.name in ("arith.divf", "arith.mulf"):
            op.operands[1] = next(one for one in module.walk() if one.name == "tt.load").operands[0]


def rewritten(rewrite: Any, after: str = "coalesce") -> Any:
    with kernellab.register_pass(rewrite, after=after, kernels=[scaled], seconds=0.5):
        return kernellab.validate(scaling(), target="sm_90")


def expressions(first: str, second: Any) -> Callable[[Path], Any]:
    return lambda folder: compared("f32", first, second, folder)


ASSEMBLY = 'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)'
BITS = "(x.to(tl.int32, bitcast=True) ^ 1).to(tl.float32, bitcast=True)"
BRANCH = "x if tl.load(x_ptr) > 0 else -x"
MASKED = "tl.store(out_ptr + at, x, mask="

ANSWERS: dict[str, tuple[Callable[..., Any], Any, str, str]] = {
    # atomics in an order that results show
    "an exchange": (lambda: in_order("exchange"), "not decided", "order", "tl.atomic_xchg(out_ptr"),
    "an exchange by one program": (lambda: in_order("exchange", 1), "equal", "", ""),
    "an exchange of integers":
        (lambda: in_order("exchange of integers"), "not decided", "order", "tl.atomic_xchg(count"),
    "a compare and swap":
        (lambda: in_order("compare and swap"), "not decided", "order", "tl.atomic_cas(count_ptr"),
    "a ticket that chooses the place":
        (lambda: in_order("ticket"), "not decided", "order", "tl.store(out_ptr + tl.atomic_add"),
    "a ticket that chooses nothing": (lambda: in_order("any ticket"), "equal", "not all", ""),
    "a lock": (lambda: in_order("lock"), "equal", "not all", ""),
    # random numbers, assembly, bits, branches on floats, a loop that does not end for infinity
    "random numbers of one seed":
        (expressions("tl.rand(7, place)", "tl.rand(7, place)"), "equal", "", ""),
    "random numbers of two seeds":
        (expressions("tl.rand(7, place)", "tl.rand(8, place)"), "different", "", "tl.store"),
    "random numbers of torch":
        (expressions("tl.rand(7, place)", lambda x, y: torch.rand(64)), "different", "", "store"),
    "inline assembly":
        (expressions(ASSEMBLY, ASSEMBLY), "not decided", "inline_asm", "tl.inline_asm"),
    "a changed bit of a float": (expressions(BITS, "x"), "not decided", "bits", "bitcast=True"),
    "shifted bits of a float":
        (expressions(BITS.replace("^ 1", "<< 1 >> 1"), "x"), "not decided", "bits", "bitcast="),
    "a branch beside its choices":
        (expressions(BRANCH, lambda x, y: torch.where(x[0] > 0, x, -x)), "equal", "", ""),
    "a branch beside one side of it": (expressions(BRANCH, "x"), "different", "", "tl.store"),
    "a branch of torch on a float":
        (expressions("x", lambda x, y: x if x[0] > 0 else -x), "different", "", "tl.store"),
    "a float that torch reads":
        (lambda: beside(lambda x: x if x[0].item() < 7 else -x), "not decided", "_scalar", ""),
    "a loop that infinity keeps alive":
        (lambda: kernellab.equal(halved, halved, (1,), torch.rand(1), torch.zeros(1)),
        "not decided", "did not end within", ""),
    # nothing to compare, or no results that fit
    "masks that are never true":
        (lambda: kernellab.equal(*2 * [scaling(first=SIZE)]), "not decided", "no store", MASKED),
    "a mask that is never true beside one that is":
        (lambda: kernellab.equal(scaling(first=SIZE), scaling()), "different", "", MASKED),
    "masks that are never true, validated":
        (lambda: kernellab.validate(scaling(first=SIZE)), ArgumentError, "no store", ""),
    "no store":
        (lambda: kernellab.equal(*2 * [scaling(stores=False)]), ArgumentError, "nothing to", ""),
    "no store, validated":
        (lambda: kernellab.validate(scaling(stores=False)), ArgumentError, "nothing to", ""),
    "no programs": (lambda: kernellab.validate(scaling(programs=0)), GridError, "", ""),
    "results of two shapes":
        (lambda: softmax(lambda x: x.softmax(1).T), ArgumentError, "has shape", ""),
    "another number of results": (lambda: softmax(lambda x: (x, x)), ArgumentError, "has 2", ""),
    "no result of the function": (lambda: softmax(lambda: None), ArgumentError, "no tensor", ""),
    "unknown parameters": (lambda: softmax(lambda a, b, c: a), ArgumentError, "x_ptr", ""),
    "tensors that do not fit": (lambda: softmax(torch.mm), ArgumentError, "x_ptr", ""),
    "no kernel": (lambda: kernellab.equal(torch.add, torch.sub), ArgumentError, "a kernel", ""),
    # options
    "no seeds": (lambda: beside(torch.abs, seeds=0), OptionError, "seeds", ""),
    "unknown rounding": (lambda: beside(torch.abs, rounding="keep"), OptionError, "rounding", ""),
    "a proof of rounding":
        (lambda: beside(torch.abs, rounding="kept", proof=True), OptionError, "proof", ""),
    # ranges of sizes, and what they leave open
    "an empty range": (lambda: sized(n=(4, 3)), OptionError, "range", ""),
    "a negative range": (lambda: sized(n=(-1, None)), OptionError, "range", ""),
    "an unknown size": (lambda: sized(k=ANY), OptionError, "integer parameters", ""),
    "no size": (lambda: sized(), OptionError, "at least one", ""),
    "two equal sizes": (lambda: sized(80, m=ANY, n=ANY), OptionError, "must differ", ""),
    "an index from memory":
        (lambda: sized(n=ANY), "not decided", "not a polynomial", "tl.load(x_ptr + index)"),
    "a grid of numbers":
        (lambda: sized(n=ANY, grid=(5,)), "not decided", "Pass the grid as a function", "tl.load("),
    # passes
    "a pass that raises":
        (lambda: rewritten(raises), CompileError, "ValueError: builtin.module", "ttgir.raises"),
    "a pass that does not end":
        (lambda: rewritten(goes_on), CompileError, "longer than 0.5 seconds", "ttgir.goes_on"),
    "a pass that makes invalid IR":
        (lambda: rewritten(adds_pointers), CompileError, "MLIR refuses", "ttgir.adds_pointers"),
    "a pass after the last that can be":
        (lambda: rewritten(raises, after="llir.cse"), OptionError, "llir", ""),
    "a pass after an unknown one":
        (lambda: rewritten(raises, after="coalesced"), OptionError, "coalesced", ""),
    "a pass that is text":
        (lambda: rewritten("coalesce"), OptionError, "function or a RewritePattern", ""),
}  # fmt: skip
"""A call, the verdict or the error, some of its words, and a part of the line or the pass."""


SLOW = {
    "an exchange by one program", "an exchange of integers", "a compare and swap", "a lock",
    "a ticket that chooses nothing", "random numbers of torch", "shifted bits of a float",
    "a branch beside one side of it", "masks that are never true, validated",
    "a pass after an unknown one", "no store, validated", "a pass that does not end",
}  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in ANSWERS],
)
def test_each_kind_has_its_answer(kind, tmp_path, monkeypatch, messages) -> None:
    if kind == "a loop that infinity keeps alive":
        monkeypatch.setattr(functions, "LONGEST", 1.0)
    call, answer, words, line = ANSWERS[kind]
    given = (tmp_path,) if call.__code__.co_varnames == ("folder",) else ()
    if not isinstance(answer, str):
        with pytest.raises(answer, match=words) as raised:
            call(*given)
        assert not line or raised.value.failed_pass == line
        assert raised.value == messages
        return
    found = call(*given)
    if isinstance(found, Equality):
        verdict, said, position = found.verdict, f"{found.reason} {found.notes}", found.position
        at = None if position is None else (position.file, position.line)
    else:
        verdict, said = found.every_size, " ".join(found.notes)
        at = __file__, int(re.findall(r"line (\d+): an address", said)[0])
    assert (verdict, words in said) == (answer, True), found
    assert line in ("" if at is None else linecache.getline(*at)), found
