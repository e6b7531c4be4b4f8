"""The cells of a notebook that shows a view of each kind."""

from tests.support.notebook_session import ADD

CELLS = [
    """\
%load_ext kernellab
import os, pathlib, torch, triton, triton.language as tl
import kernellab.viz.kit.view
kernellab.viz.kit.view._SENT_AT_ONCE = 1  # so that texts are left out
pathlib.Path("kernel").write_text(str(os.getpid()))""",
    f"""\
%%tilekernel --no-compile
{ADD}\
x = torch.arange(1000.0)
add[(8,)](x, x, torch.zeros(1000), 1000, BLOCK=128)""",
    "%tileir add",
    "%tilelayout add i",
    "%tilestep --program 1 add[(8,)](x, x, torch.zeros(1000), 1000, BLOCK=128)",
]
