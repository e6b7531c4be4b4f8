"""Bad input through a real notebook kernel: class, words and line of each error."""

import pytest

from tests.support.notebook_session import ADD, NotebookSession, Outcome

SIGNATURE = "def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):"


CELLS = (
    "%load_ext kernellab",
    "import numpy as np, torch, triton, triton.language as tl\n"
    "x = torch.rand(1000); y = torch.rand(1000); z = torch.zeros(1000)",
    f"%%tilekernel --no-compile\n{ADD}",
)


def fails(lab: NotebookSession, cell: str) -> Outcome:
    """Run a cell that has to fail: the traceback is short, and the kernel answers afterwards."""
    outcome = lab.run(cell)
    assert outcome.status == "error", outcome
    assert "kernellab/" not in outcome.traceback
    assert "site-packages" not in outcome.traceback
    assert "get_ipython" not in outcome.traceback
    assert "skipping hidden" not in outcome.traceback
    assert len(outcome.traceback.splitlines()) < 45, outcome.traceback
    assert lab.ask("1 + 1") == "2"
    return outcome


@pytest.mark.slow
def test_syntax_error(lab: NotebookSession) -> None:
    outcome = fails(lab, f"%%tilekernel\n{ADD}values = (1,\nmore = 2\n")
    assert outcome.error == "SyntaxError"
    assert "'(' was never closed" in outcome.message
    assert "line 8" in outcome.traceback
    assert "values = (1," in outcome.traceback


def test_exception_in_the_cell_keeps_what_came_before(lab: NotebookSession) -> None:
    outcome = fails(
        lab, "%%tilekernel\nkept = 'kept'\ndef divide(a):\n    return a / 0\ndivide(1)\n"
    )
    assert (outcome.error, outcome.message) == ("ZeroDivisionError", "division by zero")
    assert outcome.arrows == ["5: divide(1)", "4: return a / 0"]
    assert lab.ask("kept") == "'kept'"


def test_exception_keeps_its_cause(lab: NotebookSession) -> None:
    outcome = fails(
        lab,
        "%%tilekernel\ndef look():\n    {}['key']\n"
        "try:\n    look()\nexcept KeyError as e:\n    raise ValueError('v') from e\n",
    )
    assert outcome.error == "ValueError"
    assert "3: {}['key']" in outcome.arrows
    assert outcome.arrows[-1] == "7: raise ValueError('v') from e"


def test_no_kernel_in_the_cell(lab: NotebookSession, messages) -> None:
    outcome = fails(lab, "%%tilekernel\nno_kernel = 1\n")
    assert outcome.error == "KernelLabError"
    assert outcome.message == messages
    assert "@triton.jit" in outcome.message
    assert outcome.arrows == ["1: %%tilekernel"]
    assert lab.ask("no_kernel") == "1"


def test_await_says_where_it_works(lab: NotebookSession) -> None:
    outcome = fails(lab, "%%tilekernel\nimport asyncio\nawait asyncio.sleep(0)\n")
    assert outcome.error == "SyntaxError"
    assert "ordinary cell" in outcome.message
    assert "line 3" in outcome.traceback


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("--targt sm_90", "OptionError"),
        ("target sm_90", "OptionError"),
        ("--target sm_91", "TargetError"),
        ("--target gfx94", "TargetError"),
        ("--target", "OptionError"),
        ("--target --no-compile", "OptionError"),
        ("--no-compile=yes", "OptionError"),
        ("--num-warps 3", "OptionError"),
        ("--num-warps four", "OptionError"),
        ("--num-stages 0", "OptionError"),
        ("--constexpr BLOCK", "OptionError"),
        ("--constexpr T=tl.float15", "OptionError"),
        ("--constexpr BLOK=64", "OptionError"),
        ('--sig "*fp33"', "ArgumentError"),
        ('--sig "*fp32', "OptionError"),
    ],
)
def test_options(lab, options, error, messages) -> None:
    outcome = fails(lab, f"%%tilekernel {options}\n{ADD}")
    assert outcome.error == error
    assert outcome.message == messages
    assert outcome.arrows == [f"1: %%tilekernel {options}"]


def test_the_caret_stands_under_the_bad_word(lab: NotebookSession) -> None:
    outcome = fails(lab, f"%%tilekernel --no-compile --targt sm_90\n{ADD}")
    excerpt = outcome.message.splitlines()
    line = next(i for i, text in enumerate(excerpt) if "%%tilekernel --no-compile" in text)
    assert excerpt[line + 1].index("^") == excerpt[line].index("--targt")


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        ("*fp32, *fp32", "'add' is missing the arguments 'z_ptr' and 'n'"),
        ("*fp32, *fp32, *fp32, i32, 64, i32", "takes 5 arguments (x_ptr, y_ptr, z_ptr, n, BLOCK)"),
        ("*fp32, *fp32, *fp32, i32, m=i32", "'m'"),
    ],
)
def test_a_signature_that_does_not_fit(lab: NotebookSession, signature: str, words: str) -> None:
    outcome = fails(lab, f'%%tilekernel --sig "{signature}" --constexpr BLOCK=64\n{ADD}')
    assert outcome.error in ("ArgumentError", "MissingArguments", "OptionError")
    assert words in outcome.message
    assert outcome.arrows[-1] == f"3: {SIGNATURE}"


def test_compilation_error_points_into_the_helper(lab, messages) -> None:
    cell = (
        "%%tilekernel --constexpr BLOCK=100\n"
        "@triton.jit\ndef lanes(BLOCK: tl.constexpr):\n    return tl.arange(0, BLOCK)\n"
        "@triton.jit\ndef k(x_ptr, BLOCK: tl.constexpr):\n    tl.store(x_ptr + lanes(BLOCK), 1)\n"
    )
    outcome = fails(lab, cell)
    assert outcome.error == "CompileError"
    assert outcome.message == messages
    assert outcome.arrows == ["4: return tl.arange(0, BLOCK)"]


def test_compilation_error_of_a_launch_shows_launch_and_line(lab: NotebookSession) -> None:
    cell = "%%tilekernel\n@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, unknown)\nk[(1,)](x)\n"
    outcome = fails(lab, cell)
    assert outcome.error == "CompileError"
    assert "unknown" in outcome.message
    assert outcome.arrows == ["5: k[(1,)](x)", "4: tl.store(x_ptr, unknown)"]


@pytest.mark.slow
def test_one_bad_kernel_hides_no_others_card(lab: NotebookSession) -> None:
    bad = "@triton.jit\ndef bad(x_ptr):\n    tl.store(x_ptr, unknown)\n"
    outcome = fails(lab, f"%%tilekernel --constexpr BLOCK=64\n{bad}{ADD}")
    assert [card.removeprefix("✗ ").split()[0] for card in outcome.cards] == ["add", "bad:"]
    assert outcome.error == "CompileError"


@pytest.mark.parametrize(
    ("launch", "error"),
    [
        ("add[(8,)](x, y, z, BLOCK=128)", "MissingArguments"),
        ("add[(8,)](x, y, z, 1000, 128, 5)", "ArgumentError"),
        ("add[(8,)](x, y, z, 1000)", "MissingArguments"),
        ("add[(8,)](x, y, z, 1000, BLOK=128)", "OptionError"),
        ("add[(8,)](x, y, z, 1000, BLOCK=128, num_warp=4)", "OptionError"),
        ("add[(8,)]([1.0], y, z, 1000, BLOCK=128)", "ArgumentError"),
        ("add[(8,)](x, y, z, 1000, BLOCK=100)", "CompileError"),
    ],
)
def test_arguments(lab, launch, error, messages) -> None:
    outcome = fails(lab, launch)
    assert outcome.error == error
    assert outcome.message == messages
    assert outcome.arrows[0] == f"1: {launch}"
    assert len(outcome.arrows) == 2  # and the line of the kernel


@pytest.mark.parametrize(
    "grid", ["(-1,)", "(1, 1, 1, 1)", "()", "(1.5,)", "'many'", "lambda meta: (-1,)"]
)
def test_grids(lab: NotebookSession, grid: str, messages) -> None:
    outcome = fails(lab, f"add[{grid}](x, y, z, 1000, BLOCK=128)")
    assert outcome.error == "GridError"
    assert outcome.message == messages
    assert outcome.arrows[0].startswith("1: add[")


def test_out_of_bounds_load(lab: NotebookSession) -> None:
    outcome = fails(lab, f"%%tilekernel\n{ADD}add[(8,)](x[:900].clone(), y, z, 1000, BLOCK=128)\n")
    assert outcome.error == "OutOfBounds"
    assert "x_ptr[900]" in outcome.message
    assert "program (7, 0, 0)" in outcome.message
    assert "element 4 of the tile" in outcome.message
    assert outcome.arrows == [
        "8: add[(8,)](x[:900].clone(), y, z, 1000, BLOCK=128)",
        "5: x = tl.load(x_ptr + i, mask=i < n)",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "%tilecheck addd[(1,)](x, y, z)",
        "%tilecheck np[(1,)](x)",
        "%tilecheck x[(1,)](x)",
        "kernellab.check(x, (1,), x)",
    ],
)
def test_what_is_checked_is_no_kernel(lab, line, messages) -> None:
    outcome = lab.run(f"import kernellab\n{line}")
    assert outcome.status == "error"
    assert outcome.message == messages
    assert len(outcome.message.splitlines()) < 6
    assert "kernellab/" not in outcome.traceback
    assert len(outcome.arrows) == 1


def test_a_step_that_the_trace_does_not_have(lab, messages) -> None:
    outcome = fails(
        lab, "import kernellab\nkernellab.trace(add, (8,), x, y, z, 1000, BLOCK=128)[99]"
    )
    assert outcome.error == "NoSuchStep"
    assert outcome.message == messages
    assert len(outcome.arrows) == 1


SLOW = """\
%%tilekernel --no-compile
@triton.jit
def slow(p, n):
    turn = 0
    while turn < n:
        turn += 1
    tl.store(p, turn)
"""


def test_a_loop_of_many_turns_is_checked_to_its_end_when_told_to(lab, messages) -> None:
    lab.run(SLOW)
    count = "torch.zeros(1, dtype=torch.int32)"
    stopped = lab.run(f"found = %tilecheck --most-turns 500 slow[(1,)]({count}, 600)\nprint(found)")
    assert stopped.streams["stdout"] == messages
    assert " ".join(stopped.streams["stdout"].split()) == messages
    ended = lab.run(
        f"found = %tilecheck --most-turns 700 slow[(1,)]({count}, 600)\nprint(len(found))"
    )
    assert ended.streams["stdout"].strip().endswith("0")
    late = lab.run(
        f"found = %tilecheck --late slow[(1,)]({count}, 6)\nprint(found.launch.keywords['stage'])"
    )
    assert late.streams["stdout"].strip().endswith("ttgir")


ENDLESS = """\
%%tilekernel
@triton.jit
def endless(p, step):
    value = tl.load(p)
    while value < 1:
        value = value + step
    tl.store(p, value)
print("started", flush=True)
endless[(1,)](torch.zeros(1, dtype=torch.int32), 0)
"""


def test_ctrl_c_gives_the_prompt_back_within_a_second(lab: NotebookSession) -> None:
    outcome = lab.run(ENDLESS, interrupt_after="started")
    assert outcome.error == "KeyboardInterrupt", outcome
    assert outcome.seconds < 1.0
    assert outcome.arrows[0] == "9: endless[(1,)](torch.zeros(1, dtype=torch.int32), 0)"
    assert "kernellab/" not in outcome.traceback
    assert lab.ask("type(endless).__name__") == "'TileKernel'"
    again = lab.run("add[(8,)](x, y, z, 1000, BLOCK=128)\ntorch.equal(z, x + y)").result
    assert again is not None
    assert again["text/plain"] == "True"
