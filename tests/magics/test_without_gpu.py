"""Plain `@triton.jit` in ordinary cells of a notebook, on a machine without a GPU."""

import pytest
import torch

from tests.support.first_cells import PLAIN, advice, succeeds

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")

KERNEL = f"@triton.jit\n{PLAIN}"
TENSORS = "x, y = torch.ones(16), torch.zeros(16)"
IMPORTS = "import torch, triton, triton.language as tl"


# The tutorials of Triton begin with the question for the driver's device.
DEVICE = "DEVICE = triton.runtime.driver.active.get_active_torch_device()"
CELLS = ("%load_ext kernellab", f"{IMPORTS}\n{DEVICE}\n{TENSORS}", KERNEL)


@pytest.mark.slow
def test_its_launches_run_on_the_cpu(lab):
    succeeds(lab, "scale[(1,)](x, y, BLOCK=16)\nassert y.tolist() == [2.0] * 16")
    succeeds(lab, "assert torch.zeros(3, device=DEVICE).is_cpu")
    succeeds(lab, "assert type(scale).__name__ == 'JITFunction'")


@pytest.mark.slow
def test_a_kernel_that_was_there_before_the_extension_and_an_autotuned_one(notebook):
    tuned = "@triton.autotune([triton.Config({'BLOCK': 16})], key=[])\n" + KERNEL
    lab = notebook(IMPORTS, tuned, f"%load_ext kernellab\n{TENSORS}\nscale[(1,)](x, y)")
    succeeds(lab, "assert y.tolist() == [2.0] * 16")


def test_a_fault_is_told_on_the_kernels_line(lab):
    outcome = lab.run("scale[(1,)](x, y[:8].clone(), BLOCK=16)")
    assert outcome.error == "OutOfBounds"
    assert "tl.store(y_ptr + i" in outcome.traceback


def test_autotuning_and_threads(lab):
    succeeds(lab, "@triton.autotune([triton.Config({'BLOCK': 16})], key=[])\n" + KERNEL)
    launched = "import threading\nthread = threading.Thread(target=lambda: scale[(1,)](x, y))"
    succeeds(lab, f"y.zero_()\n{launched}\nthread.start(); thread.join()\nassert y.all()")


def test_an_installed_packages_launch_is_refused_with_a_fix_that_helps(lab, tmp_path):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "their_kernels.py").write_text(
        f"{IMPORTS}\n{KERNEL}\ndef scaled(x, y):\n    scale[(1,)](x, y, BLOCK=16)\n"
    )
    succeeds(lab, f"import sys; sys.path.append({str(folder)!r}); import their_kernels")
    outcome = lab.run("their_kernels.scaled(x, y)")
    assert outcome.error == "NoGpu"
    assert "0 active drivers" not in outcome.traceback
    assert "with kernellab.interpreted():" in outcome.traceback
    fixed = "import kernellab\nwith kernellab.interpreted():\n    their_kernels.scaled(x, y)"
    succeeds(lab, fixed)


@pytest.mark.slow
def test_triton_by_way_of_a_module_in_the_launching_cell(notebook, tmp_path, monkeypatch):
    # A kernel with other variables is not forked from one that has imported Triton.
    monkeypatch.setenv("WITHOUT_TRITON", "1")
    (tmp_path / "own_kernels.py").write_text(f"{IMPORTS}\n{KERNEL}\n{TENSORS}\n")
    lab = notebook("%load_ext kernellab", f"import sys; sys.path.append({str(tmp_path)!r})")
    cell = "from own_kernels import *\nscale[(1,)](x, y, BLOCK=16)"
    assert "Run the cell again" in advice(lab, cell)
    succeeds(lab, cell)


@pytest.mark.slow
def test_without_the_extension_triton_is_what_it_was(notebook):
    lab = notebook("%load_ext kernellab", IMPORTS, "%unload_ext kernellab", TENSORS, KERNEL)
    outcome = lab.run("scale[(1,)](x, y, BLOCK=16)")
    assert outcome.error == "RuntimeError"
    assert "0 active drivers" in outcome.traceback
