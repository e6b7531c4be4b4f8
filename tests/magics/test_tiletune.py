"""`%%tiletune` in a real notebook kernel."""

import pytest

from tests.support.notebook_session import NotebookSession, StartNotebook

DEFINES = """\
%%tilekernel --no-compile
import torch, triton, triton.language as tl

@triton.jit
def double(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=inside), mask=inside)
"""

TUNES = """\
%%tiletune --space BLOCK=64,128 --space num_warps=2,4 --key n --check --no-cache --name found
n = 1000
x = torch.arange(n, dtype=torch.float32)
z = torch.zeros(n)
grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)

double[grid](x, z, n)
"""


LAUNCH = "double[grid](x, z, n)"
TUNES_64 = "%%tiletune --space BLOCK=64 --check --no-cache --name found"
GIVEN = """\
n = 1000
x = torch.arange(n, dtype=torch.float32)
z = torch.zeros(n)
grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
"""


@pytest.fixture(scope="module")
def session(notebook: StartNotebook) -> NotebookSession:
    return notebook("%load_ext kernellab", "import torch, triton\n" + GIVEN, DEFINES)


@pytest.mark.slow
def test_a_cell_is_run_and_its_launch_tuned(session) -> None:
    outcome = session.run(TUNES)
    assert not outcome.error, outcome.traceback
    card = outcome.still["text/plain"]
    assert "double: 4 configs  for sm_90, no GPU" in card
    assert "Nothing was timed" in card
    shown = session.run("print(list(found.table['same result as']), float(z.sum()), found.key)")
    assert shown.streams["stdout"] == f"{['the first config'] * 4} 0.0 {{'n': 1000}}\n"


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ("%%tiletune --space BLOCK\nx", "OptionError"),
        ("%%tiletune\nn = 5", "OptionError"),
        ("%%tiletune\nn + 5", "OptionError"),
        ("%%tiletune\ndouble[grid](x, z, n)", "ArgumentError"),
        ("%%tiletune --space BLOK=64\ndouble[grid](x, z, n)", "OptionError"),
        ("%%tiletune --space BLOCK=64\ny = (1\n", "SyntaxError"),
        ("%%tiletune --executor n + 5\nn", "OptionError"),
        ("%%tiletune --rtol -1\nn", "OptionError"),
        ("%%tiletune --atol nan\nn", "OptionError"),
        ("%%tiletune --reference x+y\nn", "OptionError"),
        (f"{TUNES_64} --prune n\n{LAUNCH}", "ArgumentError"),
        (f"{TUNES_64} --executor n\n{LAUNCH}", "ArgumentError"),
        (f"{TUNES_64} --baseline n\n{LAUNCH}", "ArgumentError"),
        (f"{TUNES_64} --reference x\n{LAUNCH}", "ArgumentError"),
        (f"{TUNES_64} --recorded nowhere.json\n{LAUNCH}", "ArchiveError"),
    ],
)
def test_what_cannot_be_tuned_is_said(session, cell, error, messages) -> None:
    outcome = session.run(cell)
    assert outcome.error == error
    assert outcome.message == messages


HANGS = """\
%%tilekernel --no-compile
import triton, triton.language as tl

@triton.constexpr_function
def one(how):
    import time as t
    if how == "hangs":
        t.sleep(1000)
    return 1

@triton.jit
def hanging(x_ptr, HOW: tl.constexpr):
    ONE: tl.constexpr = one(HOW)
    tl.store(x_ptr, ONE)
"""
STOPPED = """\
%%tiletune --space HOW=compiles,hangs --seconds 600 --name found
import pathlib, threading, time

def tell():
    while not any(pathlib.Path({folder!r}).rglob("*.json")):
        time.sleep(0.05)
    print("one is done", flush=True)

threading.Thread(target=tell, daemon=True).start()
hanging[(1,)]("*fp32:16")
"""


@pytest.mark.slow
def test_the_stop_button_keeps_the_table(session, tmp_path) -> None:
    folder = str(tmp_path)
    session.run(f"import os; os.environ['KERNELLAB_CACHE_DIR'] = {folder!r}")
    assert not session.run(HANGS).error
    outcome = session.run(STOPPED.format(folder=folder), interrupt_after="one is done")
    assert not outcome.error, outcome.traceback
    assert "1 of 2 configs were not tried" in outcome.cards[0]
    shown = session.run("print(list(found.table['HOW']), found.table['registers'][0] > 0)")
    assert shown.streams["stdout"] == "['compiles'] True\n"


@pytest.mark.slow
def test_a_sweep_says_that_its_kernel_was_redefined(session) -> None:
    redefined = "redefined since this sweep"
    both = "import kernellab; kernellab.Tunings([found, found]).show()"
    for cell in (DEFINES.replace("double", "triple"), TUNES.replace("double", "triple")):
        assert not session.run(cell).error
    assert redefined not in session.run("found.show()").still["text/plain"]
    session.run(DEFINES.replace("double", "triple").replace("2 * tl", "3 * tl"))
    assert redefined in session.run("found.show()").still["text/plain"]
    assert redefined in session.run(both).still["text/plain"]
    assert redefined in session.ask("found.show()._live_data().sweeps[0].words[1]")


@pytest.mark.parametrize("option", ["--reference", "--prune", "--baseline", "--executor"])
def test_a_name_that_nothing_has(session, option, messages) -> None:
    outcome = session.run(f"{TUNES_64} {option} gird\n{LAUNCH}")
    assert outcome.error == "OptionError"
    assert "gird" in outcome.message
    assert outcome.message == messages


@pytest.mark.slow
def test_results_are_compared_with_a_variable_of_the_cells_own(session) -> None:
    cell = f"{TUNES_64} --reference right {{}}\nright = {{{{'z_ptr': 2 * x + 0.5}}}}\n{LAUNCH}"

    def said(options):
        outcome = session.run(cell.format(options))
        assert not outcome.error, outcome.traceback
        return session.run(
            "print(found.table.iloc[0][['same result as', 'dropped']].tolist())"
        ).streams["stdout"]

    # The elements are 0 to 1998, and each is off by 0.5.
    assert "wrong result" in said("--atol 0.4 --rtol 0")
    assert said("--atol 0.6 --rtol 0") == "['the reference', '']\n"
    assert said("--rtol 1 --atol=0.01").startswith("['the reference'")


@pytest.mark.slow
def test_a_function_leaves_configs_out_and_a_cluster_runs_the_others(session) -> None:
    outcome = session.run(
        "%%tiletune --space BLOCK=32,64,128 --check --no-cache --name found --prune too_small "
        "--executor pool\n"
        "from unittest.mock import Mock\n"
        "from distributed import Client\n"
        "pool = Client(processes=False, n_workers=1, dashboard_address=None)\n"
        "pool.submit = Mock(wraps=pool.submit)\n"
        "too_small = lambda names: names['BLOCK'] < names['n'] / 20\n"
        f"{LAUNCH}"
    )
    assert not outcome.error, outcome.traceback
    shown = session.run(
        "pool.close(); print(list(found.table['BLOCK']), found.pruned, pool.submit.call_count >= 3)"
    )
    assert shown.streams["stdout"] == "[64, 128] 1 True\n"


@pytest.mark.slow
def test_baselines_are_timed_under_their_names(session) -> None:
    """On a pretended GPU: what `--baseline` names comes to where baselines are timed."""
    made = session.run(
        "from tests.support.pretended_gpu import pretended_gpu\n"
        "gpu = pretended_gpu(lambda task: 1.0)\n"
        "gpu.__enter__()"
    )
    assert not made.error, made.traceback
    outcome = session.run(
        f"{TUNES_64} --baseline in_torch,others --baseline again\n"
        "in_torch = again = lambda: 2 * x\n"
        "others = {'numpy': lambda: 2 * x.numpy(), 'sum': lambda: x + x}\n"
        f"{LAUNCH}"
    )
    session.run("gpu.__exit__(None, None, None)")
    assert not outcome.error, outcome.traceback
    shown = session.run("print(list(found.baselines))")
    assert shown.streams["stdout"] == "['in_torch', 'numpy', 'sum', 'again']\n"


@pytest.mark.slow
def test_recorded_times_stand_in(session) -> None:
    """A sweep of the same launch, saved where there is a (pretended) GPU."""
    made = session.run(
        "import kernellab\n"
        "from tests.support.pretended_gpu import pretended_gpu\n"
        "with pretended_gpu(lambda task: 0.25):\n"
        "    there = kernellab.tune(double, grid, x, z, n, space={'BLOCK': [64]}, cache=False)\n"
        "import os, tempfile\n"
        "folder = tempfile.TemporaryDirectory()\n"
        "there.save(os.path.join(folder.name, 'there.json'))\n"
        "print(folder.name)"
    )
    assert not made.error, made.traceback
    folder = made.streams["stdout"].strip()
    outcome = session.run(f"{TUNES_64} --recorded {folder}/there.json\n{LAUNCH}")
    assert not outcome.error, outcome.traceback
    shown = session.run("print(found.table['us'].tolist(), found.machine.gpu)")
    assert shown.streams["stdout"] == "[250.0] a GPU that is not there\n"
