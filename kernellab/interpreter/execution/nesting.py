"""Kernels whose statements nest too deeply for what reads them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from kernellab import triton_api
from kernellab.errors import UnsupportedOperation

Made = TypeVar("Made")
Given = ParamSpec("Given")


def told_of_nesting(
    make: Callable[Concatenate[Any, Given], Made],
) -> Callable[Concatenate[Any, Given], Made]:
    """`make`, whose first argument is the kernel, with a kernel that nests too deeply told as that:
    readers of Python and of MLIR call themselves for what is inside, and Python ends that.
    """

    @functools.wraps(make)
    def told(kernel: Any, /, *args: Given.args, **keywords: Given.kwargs) -> Made:
        __tracebackhide__ = True
        try:
            return make(kernel, *args, **keywords)
        except RecursionError:
            too_deep = UnsupportedOperation(
                f"{kernel.__name__!r} nests its statements too deeply to be read: each `elif` is "
                "an `if` inside the `else` before it",
                advice="Give a long chain of elif another form: a table in a tensor that is "
                "loaded from, tl.where, or helper functions for its parts.",
                position=triton_api.definition_of(kernel),
            )
        raise too_deep  # without the thousand frames of the reader

    return told
