"""The code that is generated of a kernel: additions, idle variables, lines, and work."""

import ast
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl
from xdsl.ir import Operation

import kernellab
from kernellab.compiler.binding import bind
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import CompileError, UnsupportedOperation
from kernellab.interpreter.codegen import indices
from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.stepping_emitter import NO_LINE, without_made_up_lines
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import make_program, program_of_module
from kernellab.interpreter.execution.scheduler import idle_variables
from kernellab.interpreter.memory.observers import AccessObserver, ObservedAccess
from kernellab.ir.syntax import read_module
from kernellab.triton_api import generic_text, make_ttir
from tests.kernels.interp import calls
from tests.support.imported import imported
from tests.support.source_lines import position_of


@triton.jit
def doubled(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, x + x, mask=offsets < n)


def test_what_is_added_hears_what_an_operation_computed() -> None:
    x, y, target = torch.arange(6.0), torch.zeros(6), DEFAULT_TARGET
    call = bind(doubled, (x, y, 6), {"BLOCK": 4}, target)
    text = generic_text(make_ttir(doubled, call.specialization, target, call.options))
    seen: list[ObservedAccess] = []
    computed: dict[str, Any] = {}

    def tell(emitter: Emitter, op: Operation) -> None:
        if op.name in ("tt.load", "arith.addf"):
            teller = emitter.constant(computed.__setitem__, hint="tell")
            emitter.evaluate(None, teller(op.name, emitter[op.results[0]]))

    observer = AccessObserver(seen.append)
    code = program_of_module(read_module(text), doubled, tell)
    launch_observed(doubled, (2,), call, code, observer)
    numpy.testing.assert_array_equal(computed["tt.load"], [[0, 1, 2, 3], [4, 5, 0, 0]])
    numpy.testing.assert_array_equal(computed["arith.addf"], 2 * computed["tt.load"])
    assert torch.equal(y, 2 * x)
    assert [one.operation.name for one in seen] == ["tt.load", "tt.store"]


def test_functions_that_kernels_share_are_called_with_each_one_s_arguments() -> None:
    """A pointer of one argument stays one in each call: no address is taken."""
    call = bind(calls.calls_too_far, (torch.zeros(7), torch.zeros(4)), {}, DEFAULT_TARGET)
    source = make_program(calls.calls_too_far, call, DEFAULT_TARGET).source
    assert "AddressSpace" not in source


WAITS = """
tries = c0
while True:
    seen = memory.load(flag, {address}, 0, None, None, active)
    tries_1 = tiles.merge(active, tries, tries_1, 0)
    active = tiles.narrowed(active, {condition}, 1)
    if ~active.any():
        break
    tries_2 = tries_1 + c1
    {more}
    tries = tiles.merge(active, tries_2, tries, 0)
    yield
"""
COUNTED = {"tries", "tries_1", "tries_2"}


def code(address: str = "at", condition: str = "seen == c0", more: str = "pass") -> str:
    return WAITS.format(address=address, condition=condition, more=more)


def test_a_number_of_tries_decides_nothing() -> None:
    """It may be stored after the loop, and be observed."""
    heard = "observer.computed(operation, (tries_1, c1), (tries_2,), active)"
    for text in (code(), code() + "memory.store(out, at, tries_1, 0)", code(more=heard)):
        assert idle_variables(text) == COUNTED


@pytest.mark.parametrize(
    "used",
    [
        {"condition": "(seen == c0) & (tries_1 < n)"}, {"address": "at + tries_1"},
        {"more": "memory.store(out, at, tries_2, 0)"}, {"more": "debugging.check(tries_2)"},
        {"more": "checked = debugging.look(tries_2)"}, {"more": "if tries_2 > n: at = c1"},
        {"more": "for turn in range(tries_2): pass"}, {"more": "picked = table[tries_2]"},
    ],
    ids=lambda used: next(iter(used.values())),
)  # fmt: skip
def test_what_has_an_effect_or_says_where_to_go_on_decides(used) -> None:
    assert not idle_variables(code(**used)) & COUNTED


def test_in_a_loop_that_is_come_to_again_what_is_read_outside_decides() -> None:
    around = "while phase < n:\n" + textwrap.indent(code(), "    ")
    assert idle_variables(around) == COUNTED
    assert not idle_variables(around + "    phase = phase + tries_1") & COUNTED


def test_in_another_loop_or_without_waiting_none_is_idle() -> None:
    assert idle_variables(code() + code(condition="tries_1 < n")) == set()
    assert idle_variables(code().replace("yield", "pass")) == set()


# Lines: what has none is passed without a stop, on every version of Python


SOURCE = """\
def f(n):  # 9
    a = 0  # 10
    for i in range(n):  # 11
        a += i  # 12
        if a > 1:  # 13
            r = a  # 14
        else:  # 15
            r = -a  # 16
        c = r  # none
    j = 0  # 18
    while True:  # 19
        t = j < 2  # 19
        d = c  # 19
        if not t:  # 19
            break  # 19
        j = j + 1  # 20
        c = d  # 20
    if n:  # none
        return j  # 22
"""


def compiled() -> CodeType:
    """The function, its statements at the lines that the comments say."""
    said = re.findall(r"# (\w+)", SOURCE)
    tree = ast.parse(SOURCE)
    for node in ast.walk(tree):
        if "lineno" in node._attributes:
            line = said[node.lineno - 1]  # type: ignore[attr-defined]
            number = NO_LINE if line == "none" else int(line)
            vars(node).update(lineno=number, end_lineno=number, col_offset=3, end_col_offset=10_007)
    code = compile(tree, "kernel.py", "exec")
    return next(one for one in code.co_consts if isinstance(one, CodeType))


def test_lines_without_a_source_are_passed() -> None:
    code = without_made_up_lines(compiled())
    lines: list[int] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        lines.extend([frame.f_lineno] if event == "line" else [])
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = FunctionType(code, {"range": range})(3)
    finally:
        sys.settrace(before)
    assert result == 2
    loop = [11, 12, 13, 16]
    assert lines == [10, *loop, *loop, 11, 12, 13, 14, 11, 18, 19, 20, 19, 20, 19, 22]


def test_all_else_stays_where_it_was() -> None:
    code, given = without_made_up_lines(compiled()), compiled()
    kept = [one for one in given.co_positions() if one[0] is not None and one[0] < NO_LINE]
    assert set(code.co_positions()) <= {*kept, (None, None, None, None)}
    assert {line for *_, line in code.co_lines() if line} == {*range(9, 15), 16, 18, 19, 20, 22}
    assert (code.co_firstlineno, code.co_code) == (given.co_firstlineno, given.co_code)


# Kernels of thousands of lines take as long as they are long, not its square


LONG = """\
import triton
import triton.language as tl

@triton.jit
def long(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.zeros([BLOCK], tl.float32)
"""


def looks(blocks: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Counter[str]:
    """How often a launch of a kernel of so many loads looks at uses and at values behind them."""
    lines = "".join(
        f"    i = i + 1\n    x{k} = tl.load(x_ptr + i % n)\n    y += x{k}\n" for k in range(blocks)
    )
    text = LONG + lines + "    tl.store(y_ptr + tl.arange(0, BLOCK), y)\n"
    long = imported(folder / f"long_{blocks}.py", text).long
    counts: Counter[str] = Counter()
    for name in ("_assigns_the_same", "_sources"):
        original = getattr(indices, name)

        def counting(*args: Any, name: str = name, original: Any = original) -> Any:
            counts[name] += 1
            return original(*args)

        monkeypatch.setattr(indices, name, counting)
    x, y = torch.arange(8.0), torch.zeros(4)
    kernellab.run(long, (1,), x, y, 8, BLOCK=4)
    places = (torch.arange(1, blocks + 1)[:, None] + torch.arange(4)) % 8
    assert y.tolist() == x[places].sum(0).tolist()
    monkeypatch.undo()
    return counts


def test_what_indices_are_made_of_is_looked_at_once(monkeypatch, tmp_path) -> None:
    few, many = (looks(blocks, monkeypatch, tmp_path) for blocks in (20, 80))
    assert all(few[name] for name in ("_assigns_the_same", "_sources"))
    assert all(many[name] < 6 * few[name] for name in few), (few, many)


# Kernels whose statements nest more deeply than can be read: an error in words


REFUSED = (UnsupportedOperation, CompileError)
"""By the reader that meets it first: of the kernel's names, Triton's, or that of MLIR."""

NESTED = """
import triton, triton.language as tl

@triton.jit
def choose(x_ptr, n):
    value = 0.0
    if n == 0:
        value = 1.0
"""


@pytest.fixture
def python_s_own_limit() -> Iterator[None]:
    """Libraries raise it for good: torch's compiler to 2,000."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def chain(folder: Path, length: int) -> Any:
    arms = [f"    elif n == {one + 1}:\n        value = {one}.0\n" for one in range(length)]
    text = NESTED + "".join(arms) + "    tl.store(x_ptr, value)\n"
    return imported(folder / f"chain_{length}.py", text).choose


@pytest.mark.usefixtures("python_s_own_limit")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("length", [250, 150, 700])
def test_too_long_a_chain_of_elif_is_told_on_its_line(tmp_path, length) -> None:
    kernel, x = chain(tmp_path, length), torch.zeros(1)
    for function in (kernellab.run, kernellab.check, kernellab.trace):
        with pytest.raises(REFUSED, match=r"nests its statements too deeply|recursion") as told:
            function(kernel, (1,), x, 3)
        assert position_of(told.value).line in (4, 5, 7)


@pytest.mark.slow
@pytest.mark.usefixtures("python_s_own_limit")
def test_a_chain_of_thirty_runs(tmp_path) -> None:
    x = torch.zeros(1)
    kernellab.run(chain(tmp_path, 30), (1,), x, 30)
    assert x.item() == 29.0
