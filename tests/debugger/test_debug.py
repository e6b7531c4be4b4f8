"""`kernellab.debug` and `%tiledebug`: Python's debugger on a kernel's lines."""

import bdb
import io
import pdb  # noqa: T100
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import CompileError, OptionError, OutOfBounds
from tests.kernels import asynchronous, debugged, stepped
from tests.support.source_lines import line_of
from tests.support.terminal_session import Terminal, terminal

ROOT = Path(__file__).parents[2]


LOOP = line_of(stepped, "for i in range(rounds)")
ADDS = LOOP + 1
SCALED = line_of(stepped, "def scaled")


@dataclass
class Session:
    """Debugs kernels with commands as if they were typed."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    printed: str = ""
    """What the last one printed, also where it ended in an error."""

    def __call__(self, commands: str, kernel: Any, grid: Any, *args: Any, **keywords: Any) -> str:
        """Debug a launch; gives what was printed. `commands` have "; " between them."""
        typed = io.StringIO("\n".join(commands.split("; ")) + "\n")
        self.monkeypatch.setattr(sys, "stdin", typed)
        self.capsys.readouterr()
        try:
            sizes = (grid,) if isinstance(grid, int) else grid
            kernellab.debug(kernel, sizes, *args, **keywords)
        finally:
            self.printed = self.capsys.readouterr().out
        return self.printed

    def of_names(self, commands: str, **keywords: Any) -> str:
        """Debug a launch of `every_name` by three programs."""
        return self(commands, stepped.every_name, 3, *every_name(), BLOCK=64, **keywords)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Session:
    return Session(monkeypatch, capsys)


def every_name() -> tuple[Any, ...]:
    return torch.arange(150, dtype=torch.float32), torch.zeros(150), 150, 4


def stops(printed: str) -> list[tuple[int, str]]:
    """(line, function) of each place where the debugger prompted."""
    found = re.findall(r"^(?:\(Pdb\) )?> \S+\.py\((\d+)\)(\w+)\(\)", printed, re.M)
    return [(int(line), name) for line, name in found]


def test_gluon_kernels_stop_at_lines_of_groups_of_warps_too(session: Session) -> None:
    wait = line_of(asynchronous, "mbarrier.wait(filled.index(stage), number // 2 & 1)  # C removed")
    kernel, args, _ = asynchronous.launched("specialized")
    commands = "p stages.shape, stages[0].max(), stages[1].max(); p filled; n; p filled; q"
    printed = session(commands, kernel, 1, *args, 5, completion="late", breakpoints=[wait])
    assert stops(printed) == [(wait, "specialized__consume"), (wait + 1, "specialized__consume")]
    assert re.search(r"\(\(2, 64, 64\), .*nan.*, .*nan", printed)  # the copies are in flight
    loading, empty = "phase 0, waits for 8,192 bytes", "phase 1, waits for 1 of 1 arrivals"
    assert f"<mbarrier({loading}), mbarrier({loading})>" in printed
    assert f"<mbarrier({empty}), mbarrier({loading})>" in printed


def test_it_stops_at_the_first_line_of_the_program(session: Session) -> None:
    printed = session.of_names("p pid; n; p pid; q", program=2)
    assert "> every_name: program (2, 0, 0) of grid (3, 1, 1)" in printed
    first = line_of(stepped, "pid = tl.program_id(0)", 0)
    assert stops(printed) == [(first, "every_name"), (first + 1, "every_name")]
    assert "*** NameError: name 'pid' is not defined" in printed
    assert "np.int32(2)" in printed or "\n2\n" in printed


def test_a_condition_over_a_tile(session: Session) -> None:
    where = f"{ADDS}, acc.max() > 100"
    printed = session.of_names("p i, acc[:3]; q", breakpoints=[where])
    assert stops(printed) == [(ADDS, "every_name")]
    # Rounds 0 to 2 make 0, 63, 252 of the last lane (times 2 each): over 100 when round 2 begins.
    assert "2" in printed.split("(Pdb) ")[1].split(",")[0]


def test_steps_go_into_helpers_and_tritons_own_functions(session: Session) -> None:
    call = line_of(stepped, "total, product = scaled")
    printed = session.of_names(
        "s; s; a; w; u; p acc.shape; d; r; s; s; s; w; q", breakpoints=[call]
    )
    assert [name for _, name in stops(printed)][:3] == ["every_name", "scaled", "scaled"]
    assert "SCALE = 2.0" in printed
    assert "_values" not in printed
    assert "(64,)" in printed
    assert re.search(r"standard\.py\(\d+\)sum\(\)", printed)
    assert "/kernellab/interpreter/" not in printed


def test_the_end_of_the_kernel_ends_the_session(session: Session) -> None:
    last = line_of(stepped, "tl.store(y_ptr + offsets, total")
    for command in ("s", "n"):
        printed = session.of_names(
            f"{command}; {command}; {command}; p 'beyond the end'", breakpoints=[last]
        )
        assert "--Return--" in printed
        assert "beyond" not in printed


def printed_after(printed: str, place: int) -> str:
    """What the command at that place among those typed printed."""
    return printed.split("(Pdb) ")[place + 1].strip()


@pytest.mark.slow
def test_functions_of_kernels_take_tiles(session: Session) -> None:
    """When round 2 begins `acc` is 0, 2, ... 126, and it was 0 before; `x` is 0, 1, ... 63."""
    typed = [
        "p tl.sum(acc, 0) == acc.sum()",
        "p tl.max(acc, 0, return_indices=True)",
        "p np.array_equal(tl.where(acc > 9, acc, -1), np.where(acc > 9, acc, np.float32(-1)))",
        "p tl.reshape(acc, [8, 8]).sum(1)[0] == acc[:8].sum(), tl.sum(mask, 0)",
        "p tl.cast(acc, tl.bfloat16).dtype, tl.math.exp(acc[0]), tl.cdiv(n, 64)",
        "p [part[1] for part in scaled(acc, x, 3.0)]",
        "p tl.reduce(acc, 0, tl.standard._elementwise_max)",
        "scaled_here = tl.exp(acc * 0); p scaled_here.sum()",
        "q",
    ]
    printed = session.of_names("; ".join(typed), breakpoints=[f"{ADDS}, tl.max(acc, 0) > 62"])
    assert "*** " not in printed
    said = [printed_after(printed, place) for place in range(9)]
    assert "True" in said[0]
    assert re.search(r"126\.0\)?, .*63", said[1])
    assert said[2] == "True"
    assert "True" in said[3]
    assert "64" in said[3]
    assert "bfloat16" in said[4]
    assert re.search(r"1\.0\)?, .*3\)?\)", said[4])
    assert re.search(r"7\.0\)?, .*6\.0", said[5])  # 2 * 3 + 1, and 2 * 3
    assert "126.0" in said[6]
    assert "64.0" in said[8]


def test_what_is_typed_over_a_tile_reaches_no_other_launch(session: Session) -> None:
    squares = torch.zeros(8, dtype=torch.int32)
    printed = session("n; lanes[:] = 9; p int(lanes.sum()); q", stepped.squares, 1, squares, 8)
    assert "(Pdb) 72" in printed
    kernellab.run(stepped.squares, (1,), squares, 8)
    assert squares.tolist() == [0, 1, 4, 9, 16, 25, 36, 49]


def test_what_functions_of_kernels_do_not_take(session, messages) -> None:
    printed = session.of_names(
        "p tl.load(x_ptr + offsets); p tl.program_id(0); p tl.sum(acc[:3]); p tl.sum(acc, 5); p "
        "acc.to(tl.int32); p acc.nothing; p tl.nothing; q",
        breakpoints=[ADDS],
    )
    said = [printed_after(printed, place) for place in range(7)]
    assert "x_ptr" in said[0]
    assert said[0] == messages
    assert "program_id" in said[1]
    assert said[1] == messages
    assert said[2] == messages
    assert "tl.sum: invalid axis 5. Expected -1 <= axis < 1" in said[3]
    assert "to" in said[4]
    assert said[4] == messages
    assert "tl.cast(x, ...)" in said[4]
    assert said[5].endswith("no attribute 'nothing'")
    assert said[6].endswith("module 'triton.language' has no attribute 'nothing'")
    assert "_semantic" not in printed


def test_display_shows_tiles_when_they_change(session: Session) -> None:
    printed = session.of_names(
        "display acc[:2]; n; n; n; q", program=1, breakpoints=[f"{ADDS}, i == 1"]
    )
    assert "display acc[:2]: array([0., 0.], dtype=float32)" in printed
    assert "display acc[:2]: array([64., 65.], dtype=float32)  [old: array([0., 0.]" in printed


def test_a_breakpoint_without_code_moves_and_says_so(session, messages) -> None:
    other = line_of(stepped, "else:")
    printed = session.of_names(f"b {other}; b {SCALED}; b scaled; b 1000; c; q")
    assert printed == messages
    assert re.search(rf"\b{other}\b.*\b{other + 1}\b", printed)
    assert re.search(rf"Breakpoint \d+ at \S+stepped\.py:{other + 1}\n", printed)
    assert re.search(rf"Breakpoint \d+ at \S+stepped\.py:{SCALED + 1}\n", printed)
    printed = session.of_names("q", breakpoints=[other])
    assert printed == messages
    assert stops(printed) == [(other + 1, "every_name")]


def test_a_breakpoint_before_a_function_moves_into_it(session: Session) -> None:
    definition = line_of(stepped, "def every_name")
    first = line_of(stepped, "pid = tl.program_id(0)", 0)
    for line in (definition - 1, definition - 2):  # the decorator, and the blank line before it
        moves = f"Line {line} has no code; the breakpoint moves to line {first}."
        printed = session.of_names("q", breakpoints=[line])
        assert moves in printed
        assert stops(printed) == [(first, "every_name")]
        assert moves in session.of_names(f"b {line}; q")


@pytest.mark.parametrize("one", [ADDS, str(ADDS), f"{ADDS}, i == 0"])
def test_a_single_breakpoint(session: Session, one: int | str) -> None:
    printed = session.of_names("q", breakpoints=one)
    assert stops(printed) == [(ADDS, "every_name")]


def test_each_of_several_programs(session: Session) -> None:
    first = line_of(stepped, "pid = tl.program_id(0)", 0)
    printed = session.of_names("c; n; p pid; c", program=[0, 2])
    assert stops(printed) == [(line, "every_name") for line in (first, first, first + 1)]
    assert "program (2, 0, 0) of grid" in printed
    last = line_of(stepped, "tl.store(y_ptr + offsets, total")
    printed = session.of_names(f"b {last}; c; c; c", program=[0, 2])
    assert [line for line, _ in stops(printed)] == [first, last, last], "at breakpoints alone"


@pytest.mark.parametrize(
    ("grid", "program", "own"), [(3, 2, "np.int32(2)"), ((2, 3), (1, 2), "(1, 2, 0)")]
)
def test_a_kernel_without_a_pid_has_one(session, grid, program, own) -> None:
    x, y = torch.arange(4, dtype=torch.float32), torch.zeros(4)
    line = line_of(debugged, "y = raised(x)")
    printed = session(
        "p 'here', repr(pid); s; s; p 'there', pid; q",
        debugged.without_pid,
        grid,
        x,
        y,
        BLOCK=4,
        program="all",
        breakpoints=f"{line}, pid == {program if grid == 3 else own}",
    )
    assert f"program {(2, 0, 0) if grid == 3 else own} of grid" in printed
    assert f"('here', '{own}')" in printed
    assert "*** NameError: name 'pid' is not defined" in printed, "helpers have none"


def test_a_launch_is_not_restarted(session: Session, messages) -> None:
    for command in ("run", "restart"):
        printed = session.of_names(f"{command}; n; q")
        assert printed == messages
        assert len(stops(printed)) == 2, "and the session goes on"


def test_breakpoints_by_file_and_by_function(session: Session) -> None:
    for where in ("scaled", f"stepped.py:{SCALED + 1}", f"{stepped.__file__}:{SCALED + 1}"):
        printed = session.of_names("q", breakpoints=[where])
        assert stops(printed) == [(SCALED + 1, "scaled")]


def test_breakpoint_statements(session: Session) -> None:
    x, y = torch.arange(8, dtype=torch.float32), torch.zeros(8)
    first, second = (line_of(debugged, "breakpoint()", n) for n in (1, 2))
    printed = session(
        "p offsets; c; c; c", debugged.stops, 2, x, y, BLOCK=4, program=[0, 1], in_place=True
    )
    assert stops(printed) == [(first, "stops"), (first, "stops"), (second, "stops")]
    assert "array([0, 1, 2, 3], dtype=int32)" in printed
    assert y.tolist() == (x + 1).tolist()
    debugged.stops[(2,)](x, y, BLOCK=4)  # an ordinary launch does not stop
    compiled: Any = kernellab.compile(debugged.stops, x, y, target="sm_90", BLOCK=4)
    assert "print" not in str(compiled.stages["ttir"].text)


def test_breakpoint_statements_of_plain_kernels(session: Session) -> None:
    x, y = torch.arange(4, dtype=torch.float32), torch.zeros(4)
    printed = session("p x; c", debugged.plain, 1, x, y, BLOCK=4)
    assert stops(printed) == [(line_of(debugged, "breakpoint()", 3), "plain")]
    assert "array([0., 1., 2., 3.], dtype=float32)" in printed
    assert "pid (0, 0, 0) x: [0. 1. 2. 3.]" in printed
    kernellab.run(debugged.plain, (1,), x, y, BLOCK=4)
    assert y.tolist() == x.tolist()


def test_a_parameter_goes_before_an_option_of_its_name(session: Session) -> None:
    y = torch.zeros(1, dtype=torch.int32)
    printed = session("n; p doubled; c", debugged.takes_program, 2, y, program=4, in_place=True)
    assert "program (0, 0, 0) of grid (2, 1, 1)" in printed
    assert y.item() == 8


def test_no_breakpoint_outlives_its_session(session: Session) -> None:
    before = list(bdb.Breakpoint.bpbynumber)
    session.of_names(f"b {ADDS}; c; q", breakpoints=[LOOP])
    left = [one for one in bdb.Breakpoint.bpbynumber if one is not None and one not in before]
    assert not left
    assert sys.gettrace() is None or "pdb" not in repr(sys.gettrace())


def test_copies_unless_in_place(session: Session) -> None:
    x, y, n, rounds = every_name()
    alone = every_name()
    kernellab.run(stepped.every_name, (3,), *alone, BLOCK=64)
    session("c", stepped.every_name, 3, x, y, n, rounds, BLOCK=64)
    assert not y.any()
    session("q", stepped.every_name, 3, x, y, n, rounds, BLOCK=64, program=2, in_place=True)
    assert not y.any(), "quitting leaves tensors as they were"
    session("c", stepped.every_name, 3, x, y, n, rounds, BLOCK=64, in_place=True)
    assert torch.equal(y, alone[1])


def test_a_fault_is_looked_at_where_it_happened(session: Session) -> None:
    x, y = torch.arange(4, dtype=torch.float32), torch.zeros(6)
    with pytest.raises(OutOfBounds, match=r"y_ptr\[6\]"):
        session("c; p x; p y_ptr[:6]; p y; c", debugged.leaves, 1, x, y, 3, BLOCK=4)
    printed = session.printed
    assert stops(printed)[-1] == (line_of(debugged, "+ far, y)"), "leaves")
    assert "*** OutOfBounds: store out of bounds: y_ptr[6]" in printed
    assert "y_ptr[6]" in printed
    assert "array([0., 1., 2., 3., 0., 0.], dtype=float32)" in printed, "before the store at fault"
    assert "array([0., 2., 4., 6.], dtype=float32)" in printed
    session("n; n; n; n; p y; q", debugged.leaves, 1, x, y, 3, BLOCK=4)
    stepped_there = session.printed
    assert stepped_there.count("OutOfBounds") == 1, "stepping there tells the same, once"
    assert "array([0., 2., 4., 6.], dtype=float32)" in stepped_there
    assert not y.any()


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_leaves_everything_as_it_was(session: Session) -> None:
    handler = signal.getsignal(signal.SIGINT)
    x, y = torch.zeros(1 << 22), torch.zeros(1 << 22)
    # Pressed at the prompt it would only interrupt what is typed there:
    # so half a second after the prompt is left.
    pressing = (
        "p __import__('threading').Timer(0.5, __import__('os').kill, (__import__('os').getpid(), "
        "2)).start()"
    )
    with pytest.raises(KeyboardInterrupt):
        session(
            f"{pressing}; c", stepped.every_name, 1 << 22, x, y, 1 << 22, 1 << 22, BLOCK=1,
            in_place=True,
        )  # fmt: skip
    assert signal.getsignal(signal.SIGINT) is handler
    assert not y.any()


@pytest.mark.parametrize(
    "keywords",
    [
        {"program": 3},
        {"program": "first"},
        {"breakpoints": [1.5]},
        {"breakpoints": ["scale"]},
        {"breakpoints": [1000]},
        {"breakpoints": [f"{ADDS}, acc >"]},
        {"stage": "ttgir"},
    ],
)
def test_what_cannot_be(keywords: dict[str, Any], raised) -> None:
    raised(
        OptionError, kernellab.debug, stepped.every_name, (3,), *every_name(), BLOCK=64, **keywords
    )


def pdb_over(launch: Callable[[], Any], commands: str) -> str:
    """What pdb prints while it runs a launch with these commands."""
    printed = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO(commands.replace("; ", "\n")), stdout=printed)
    debugger.use_rawinput = False
    debugger.rcLines = []
    try:
        debugger.run("launch()", {"launch": launch})
    finally:
        debugger.clear_all_breaks()
    return printed.getvalue()


def test_pdb_around_a_launch_stops_in_its_kernel() -> None:
    x, y, n, rounds = every_name()

    def launch() -> None:
        kernellab.run(stepped.every_name, (3,), x, y, n, rounds, BLOCK=64)

    call = line_of(stepped, "total, product = scaled")
    printed = pdb_over(
        launch, f"b {stepped.__file__}:{call}; c; p type(acc), acc.shape; s; s; p SCALE; c; c"
    )
    assert stops(printed) == [(call, "every_name"), (SCALED, "scaled"), (SCALED + 1, "scaled")]
    assert "(<class 'numpy.ndarray'>, (64,))" in printed
    chosen = pdb_over(launch, f"b {stepped.__file__}:{call}, pid == 2; c; p pid; c")
    assert stops(chosen) == [(call, "every_name")]
    assert "np.int32(2)" in chosen
    alone = every_name()
    kernellab.run(stepped.every_name, (3,), *alone, BLOCK=64)
    assert torch.equal(y, alone[1])
    assert not stops(pdb_over(launch, "c")), "without breakpoints there it is an ordinary launch"


def test_print_is_device_print(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.arange(4, dtype=torch.float32)
    printed = []
    for kernel in (debugged.prints, debugged.plain_prints):
        kernel[(1,)](x, 3, BLOCK=4)
        printed.append(capsys.readouterr().out)
    assert printed[0].splitlines()[:2] == [
        "pid (0, 0, 0) x: [0. 1. 2. 3.]",
        "pid (0, 0, 0) n is: 3",
    ]
    assert printed[0] == printed[1]


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c")
def test_pdb_in_a_terminal() -> None:
    script = (
        "import torch, kernellab; from tests.kernels import stepped\n"
        "x, y = torch.arange(150.), torch.zeros(150)\n"
        "kernellab.debug(stepped.every_name, (3,), x, y, 150, 4, BLOCK=64, program=1, "
        f"breakpoints=[{ADDS}])\n"
        "print('after:', y.abs().sum().item())"
    )
    with terminal([sys.executable, "-c", script], ROOT) as keys:
        keys.read_until("(Pdb)")
        assert "np.int32(0)" in said(keys, "p i")
        assert "acc += 1" in said(keys, "ll")
        assert "--KeyboardInterrupt--" in keys.interrupt_until("(Pdb)")
        assert f"stepped.py({ADDS + 1})every_name()" in said(keys, "n")
        keys.type("q")
        keys.read_until("after: 0.0")


def said(keys: Terminal, command: str, prompt: str = "(Pdb)") -> str:
    keys.type(command)
    return keys.read_until(prompt)


@pytest.mark.slow
def test_tiledebug_in_ipython() -> None:
    command = [
        sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "--simple-prompt",
    ]  # fmt: skip
    with terminal(command, ROOT) as keys:
        keys.read_until("In [1]:")
        said(
            keys,
            "import torch; from tests.kernels import stepped; x, y = torch.arange(150.), "
            "torch.zeros(150)",
            "In [2]:",
        )
        said(keys, "%load_ext kernellab", "In [3]:")
        stop = said(
            keys,
            f'%tiledebug --program 1 --break "{ADDS}, i == 2" stepped.every_name[(3,)](x, y, '
            "150, 4, BLOCK=64)",
            "ipdb>",
        )
        assert "program (1, 0, 0) of grid (3, 1, 1)" in stop
        assert "--> " in stop
        assert "(64,)" in said(keys, "p acc.shape", "ipdb>")
        assert f"stepped.py({ADDS + 1})every_name()" in said(keys, "n", "ipdb>")
        said(keys, "q", "In [4]:")
        assert "0.0" in said(keys, "y.abs().sum().item()", "In [5]:")
        refused = said(
            keys,
            "%tiledebug --program 5 stepped.every_name[(3,)](x, y, 150, 4, BLOCK=64)",
            "In [6]:",
        )
        assert "OptionError: There is no program (5, 0, 0)" in refused
        refused = said(keys, "%tiledebug stepped.every_name(x)", "In [7]:")
        assert "is not a launch" in refused


def test_an_option_of_pythons_print_is_refused_in_words(raised) -> None:
    refused: Any = raised(
        CompileError,
        kernellab.run,
        kernellab.TileKernel(debugged.prints_without_end),
        (1,),
        torch.zeros(4),
    )
    assert refused.position.file.endswith("debugged.py")
