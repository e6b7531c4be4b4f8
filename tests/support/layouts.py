"""Layouts by the lists of their text, in its order."""

from typing import Any

from kernellab.records.layouts import Layout, RegisterLayout


def blocked(shape: Any, size: Any, threads: Any, warps: Any, order: Any) -> RegisterLayout:
    return Layout.blocked(
        shape=shape, size_per_thread=size, threads_per_warp=threads, warps_per_cta=warps,
        order=order,
    )  # fmt: skip
