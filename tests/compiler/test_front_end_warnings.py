"""What Triton warns of in a kernel is told once, at the kernel's line."""

import warnings

import torch

import kernellab
from tests.kernels import warned
from tests.support.source_lines import marked_line


def test_and_on_tiles_is_warned_of_once() -> None:
    args = (warned.masked, (1,), torch.ones(16), torch.zeros(16), 10)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        kernellab.run(*args, BLOCK=16)
        kernellab.check(*args, BLOCK=16)
        kernellab.trace(*args, BLOCK=16)
        kernellab.compile(warned.masked, "*fp32", "*fp32", "i32", BLOCK=16)
    (one,) = told
    assert "please use '&' or '|' instead" in str(one.message)
    assert (one.filename, one.lineno) == (warned.__file__, marked_line(warned, "WARNED"))
    assert one.source is None  # of which Python says that tracemalloc would know more
