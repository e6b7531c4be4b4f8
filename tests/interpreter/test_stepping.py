"""Code for stepping computes what batches compute, and has the kernel's lines and names."""

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

import kernellab
from benchmarks.eleven_kernels import eleven_cases
from kernellab.cli.demo import Case as MeasuredCase
from kernellab.compiler.binding import BoundCall, bind
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import OptionError, OutOfBounds
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.inspection import Pointer
from kernellab.interpreter.execution.launcher import Stepping, launch_stepped
from kernellab.interpreter.execution.stepping_code import SteppingCode, stepping_code
from kernellab.interpreter.memory.descriptors import Descriptor
from kernellab.launch.preparation import innermost
from kernellab.records.launches import DEFAULT, split_keywords
from tests.cases.case import Case
from tests.cases.every import CASES
from tests.kernels import stepped
from tests.support import versions
from tests.support.source_lines import line_of, position_of

ONE_A_KERNEL = list({id(case.kernel): case for case in CASES}.values())
FILE = stepped.__file__


def step_all(case: Case) -> dict[str, Any]:
    arguments = case.make()
    kernel = innermost(case.kernel)
    keywords, backend, options = split_keywords({**arguments, **case.options}, kernel.arg_names)
    call = bind(kernel, (), keywords, DEFAULT_TARGET, options=backend)
    x, y, z = (*case.grid, 1, 1)[:3]
    programs = {(0, 0, 0), (min(1, x - 1), 0, 0), (x - 1, y - 1, z - 1)}
    stepping = Stepping(stepping_code(kernel, call, DEFAULT_TARGET), programs)
    launch_stepped(kernel, case.grid, call, stepping, options)
    return arguments


@pytest.mark.sampled(24)
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("case", ONE_A_KERNEL, ids=[case.name for case in ONE_A_KERNEL])
def test_stepping_computes_what_it_should(case) -> None:
    if split_keywords(dict(case.options), ())[2].stage == DEFAULT.stage:
        case.check(step_all(case))


def launch_of(kernel: Any, *args: Any, **constants: Any) -> BoundCall:
    return bind(kernel, args, constants, DEFAULT_TARGET)


def every_name(n: int = 150) -> BoundCall:
    x = torch.arange(n, dtype=torch.float32)
    return launch_of(stepped.every_name, x, torch.zeros(n), n, 4, BLOCK=64)


class Watch:
    """Notes every line event of one program, and the locals of the kernel's frames at a line."""

    def __init__(self, program: int, at: int) -> None:
        self.program = (program, 0, 0)
        self.at = at
        self.events: list[tuple[str, int, str]] = []
        self.locals: dict[str, Any] = {}

    def of(self, event: str) -> list[tuple[str, int]]:
        return [(name, line) for kind, line, name in self.events if kind == event]

    @contextmanager
    def __call__(self, programs: Programs) -> Iterator[None]:
        if programs.id(0) == self.program:
            sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != FILE:
            return None
        self.events.append((event, frame.f_lineno, frame.f_code.co_name))
        if event in ("line", "call") and frame.f_lineno == self.at:
            self.locals = dict(frame.f_locals)
        return self._trace


def watched(call: BoundCall, kernel: Any, grid: int = 1, program: int = 0, at: str = "") -> Watch:
    """Step through a program; `at` is in the line whose locals are noted."""
    watch = Watch(program, line_of(stepped, at) if at else 0)
    stepping = Stepping(stepping_code(kernel, call, DEFAULT_TARGET), [watch.program], around=watch)
    launch_stepped(kernel, (grid,), call, stepping)
    return watch


def watched_every_name(at: str = "", program: int = 1) -> Watch:
    return watched(every_name(), stepped.every_name, 3, program, at)


def test_every_line_has_its_turn_in_the_order_of_the_source() -> None:
    lines = [line for name, line in watched_every_name().of("line") if name == "every_name"]
    loop = line_of(stepped, "for i in range(rounds)")
    body, early = [loop + 1, loop + 2, loop + 5, loop + 6], [loop + 1, loop + 2, loop + 3]
    waiting = line_of(stepped, "while j < 2")
    unrolled = line_of(stepped, "for t in tl.static_range")
    assert lines == [
        *range(line_of(stepped, "pid = "), loop),
        *[loop, *body] * 3, loop, *early, loop,
        *range(loop + 7, waiting),
        *[waiting, waiting + 1, waiting + 2] * 2, waiting,
        *[unrolled, unrolled + 1] * 2, unrolled,
        line_of(stepped, "if pid == 5"),
        line_of(stepped, "tl.store(y_ptr + offsets, total"),
    ]  # fmt: skip


def test_helpers_are_calls_that_see_their_arguments() -> None:
    watch = watched_every_name(at="def scaled")
    assert watch.of("call") == [
        (name, line_of(stepped, f"def {name}"))
        for name in ("every_name", "places", "scaled", "capped")
    ]
    capped = [line for name, line in watch.of("line") if name == "capped"]
    assert capped == [line_of(stepped, "if limit > 3"), line_of(stepped, "return a")]
    np.testing.assert_array_equal(watch.locals["b"], np.arange(64, 128, dtype=np.float32))
    assert watch.locals["SCALE"] == 2.0
    variables = watched_every_name(at="return moved").locals
    assert repr(variables["moved"]).startswith("<x_ptr + [ 64  65")
    assert variables["pointer"].argument == "x_ptr"


def test_locals_have_the_kernels_names() -> None:
    variables = watched_every_name(at="tl.store(y_ptr + offsets, total").locals
    names = {name: value for name, value in variables.items() if not name.startswith("_")}
    x = np.arange(64, 128, dtype=np.float32)
    acc = np.zeros(64, np.float32)
    for i in range(4):
        acc = acc + x * np.float32(i)
        acc = acc + np.float32(1) if i > 2 else acc * np.float32(2)
    assert set(names) == {
        "x_ptr", "y_ptr", "n", "rounds", "BLOCK", "pid", "offsets", "mask", "x", "alias", "acc",
        "HALF", "i", "inner", "total", "product", "s", "both", "c", "j", "t",
    }  # fmt: skip
    assert (names["BLOCK"], names["HALF"], names["n"], names["pid"]) == (64, 32, 150, 1)
    assert (names["i"], names["j"], names["t"]) == (3, 2, 1)
    np.testing.assert_array_equal(names["offsets"], np.arange(64, 128))
    np.testing.assert_array_equal(names["alias"], x)
    np.testing.assert_array_equal(names["product"], acc * 2)
    np.testing.assert_array_equal(names["total"], acc * 2 + x)
    np.testing.assert_array_equal(names["acc"], acc + 1 + 2 + 3 + 4)
    assert names["both"] == (names["s"], 32)
    assert all(type(names[name]) is np.ndarray for name in ("offsets", "mask", "x", "acc"))
    assert repr(names["x_ptr"]).startswith("<x_ptr: float32[150]\n[  0.   1.   2. ... ")
    np.testing.assert_array_equal(names["x_ptr"][2:5], [2, 3, 4])


def test_names_of_the_interpreters_modules_are_the_kernels_own() -> None:
    x, y = torch.arange(8, dtype=torch.float32), torch.zeros(8)
    call = launch_of(stepped.clashing, x, y, 2.0, n=8)
    variables = watched(call, stepped.clashing, at="tl.store(tiles").locals
    np.testing.assert_array_equal(variables["numpy"], np.arange(8))
    assert (variables["_value"], variables["memory"].argument) == (2.0, "memory")
    assert y.tolist() == (x + 2).tolist()


def test_unsigned_integers_and_narrow_floats() -> None:
    x, y = torch.arange(253, 261, dtype=torch.int32), torch.zeros(8)
    call = launch_of(stepped.unsigned, x, y, n=8)
    variables = watched(call, stepped.unsigned, at="narrow.to(kind)").locals
    assert (variables["wide"].dtype, variables["narrow"].dtype.name) == (np.uint8, "bfloat16")
    assert variables["kind"].name == "bf16"
    assert y.tolist() == [253, 254, 255, 0, 1, 2, 3, 4]


@pytest.mark.skipif(not versions.HAS_BLOCK_POINTERS, reason="Triton 3.9 has none")
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("passed", [False, True])
def test_block_pointers(passed) -> None:
    x, y = torch.arange(6, dtype=torch.float32), torch.zeros(4)
    call = launch_of(stepped.by_blocks, x, y, 6, BLOCK=4, PASSED=passed)
    watch = watched(call, stepped.by_blocks, at="blocks = tl.advance")
    assert y.tolist() == [4, 6, 2, 3]
    assert watch.locals["x"].tolist() == [4, 5, 0, 0]
    assert passed or ("scaled", line_of(stepped, "def scaled")) in watch.of("call")


class FirstProgramEnded(Exception):
    """Ends a launch of which no one wants the rest."""


def named_values(case: MeasuredCase) -> tuple[set[str], dict[str, Any]]:
    """The names that a kernel's source gives to values, and these at the end of program 0."""
    kernel = innermost(case.kernel)
    keywords = {**case.make_arguments(), **case.constants}
    call = bind(kernel, (), keywords, DEFAULT_TARGET, options=case.options)
    code = stepping_code(kernel, call, DEFAULT_TARGET)
    found: dict[str, Any] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is code.entry.code and event == "return":
            found.update(frame.f_locals)
        return trace

    @contextmanager
    def around(_: Programs) -> Iterator[None]:
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(None)
        raise FirstProgramEnded

    with pytest.raises(FirstProgramEnded):
        launch_stepped(kernel, case.grid, call, Stepping(code, [(0, 0, 0)], around=around))
    names = [node for node in ast.walk(kernel.parse()) if isinstance(node, ast.Name)]
    stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return stored | set(kernel.arg_names), found


@pytest.mark.slow
def test_every_name_of_the_measured_kernels_is_there() -> None:
    for case in eleven_cases():
        names, found = named_values(case)
        own = {name: value for name, value in found.items() if not name.startswith("_")}
        if "pid" not in names:
            assert own.pop("pid") in (0, (0, 0, 0)), case.name
        assert names == set(own), case.name
        for name, value in own.items():
            known = np.ndarray | np.generic | int | float | str | Pointer | Descriptor
            assert isinstance(value, known), (case.name, name, value)
        assert "object at 0x" not in repr(own)


def test_a_helper_with_two_constants_is_two_functions() -> None:
    x, y = torch.arange(4, dtype=torch.float32), torch.zeros(4)
    watched(launch_of(stepped.scaled_by_both, x, y, BLOCK=4), stepped.scaled_by_both)
    assert y.tolist() == (3 * x * 4 * x).tolist()


def test_fields_of_named_tuples() -> None:
    x = torch.arange(4, dtype=torch.float32)
    call = launch_of(stepped.fields, x, BLOCK=4)
    pair = watched(call, stepped.fields, at="pair.right)").locals["pair"]
    assert pair.left.tolist() == pair[0].tolist() == [0, 1, 2, 3]
    assert pair.right.tolist() == [1, 2, 3, 4]


def test_programs_that_wait_for_each_other_are_stepped_in_turn() -> None:
    order, next_, lock = (torch.zeros(n, dtype=torch.int32) for n in (4, 1, 1))
    call = launch_of(stepped.in_turn, order, next_, lock, 4)
    watch = watched(call, stepped.in_turn, 4, 2, at="tl.store(order_ptr")
    assert order.tolist() == [3, 2, 1, 0]
    assert (watch.locals["pid"], watch.locals["count"]) == (2, 1)
    assert ("take", line_of(stepped, "def take")) in watch.of("call")


def test_a_program_outside_the_grid_is_refused(raised) -> None:
    raised(OptionError, watched_every_name, program=3)


def test_a_fault_of_a_stepped_program_is_told_as_ever(messages) -> None:
    x = torch.arange(8, dtype=torch.float32)
    with pytest.raises(OutOfBounds) as caught:
        watched(launch_of(stepped.clashing, x, x[:4].clone(), 2.0, n=8), stepped.clashing)
    assert caught.value == messages
    assert position_of(caught.value).line == line_of(stepped, "tl.store(tiles")
    names = [entry.name for entry in caught.traceback if str(entry.path) == FILE]
    assert names == ["clashing"]


class Hook:
    def __init__(self) -> None:
        self.code: SteppingCode
        self.lines: list[tuple[str, int, str]] = []
        self.operations: list[str] = []
        self.bindings = 0

    def bound(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        variables = sys._getframe(1).f_locals
        assert all(variables[name] is value for name, value in zip(names, values, strict=True))
        self.bindings += 1

    def line(self, number: int) -> None:
        frame = sys._getframe(1)
        line = self.code.lines[number]
        assert frame.f_code in self.code.functions
        if line.file == FILE:
            self.lines.append(("line", line.line, line.function))

    def operation(self, number: int, results: tuple[Any, ...]) -> None:
        op = self.code.program.operations[number]
        assert len(op.results) == len(results)
        self.operations.append(op.name)


def test_a_hook_hears_of_the_lines_that_a_debugger_stops_at() -> None:
    events = [event for event in watched_every_name().events if event[0] == "line"]
    call, hook = every_name(), Hook()
    hook.code = stepping_code(stepped.every_name, call, DEFAULT_TARGET, traced=True)
    launch_stepped(stepped.every_name, (3,), call, Stepping(hook.code, [(1, 0, 0)], hook))
    assert hook.lines == events
    assert not hook.operations
    assert hook.bindings > len({line for _, line, _ in events}) / 2
    batched = every_name()  # the rest of the grid runs too
    kernellab.run(stepped.every_name, (3,), **batched.values)
    assert torch.equal(call.values["y_ptr"], batched.values["y_ptr"])


def test_a_hook_hears_of_operations_where_that_is_asked() -> None:
    call, hook = every_name(), Hook()
    hook.code = stepping_code(stepped.every_name, call, DEFAULT_TARGET, traces_operations=True)
    launch_stepped(stepped.every_name, (3,), call, Stepping(hook.code, [(1, 0, 0)], hook))
    assert hook.operations.count("tt.load") == hook.operations.count("tt.store") == 1
    assert hook.lines
