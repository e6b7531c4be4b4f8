"""Proofs for every size of kernels of `tests.support.equal_pairs`, and faulty twins refuted."""

from typing import Any

import pytest

import kernellab
from tests.support.equal_pairs import PAIRS, mutants

Grid = tuple[tuple[str, int] | int, ...]

_FLAT: Grid = (("n", 32),)
_ROWS: Grid = (6,)
_TILES: Grid = (("m", 16), ("n", 16))

KERNELS: dict[str, Grid] = {
    "softmax without its maximum": _ROWS, "softmax online": _ROWS, "softmax by tiles": (("m", 4),),
    "log of a sum of exponentials": _ROWS, "softmax backward": _ROWS,
    "matmul split along k": (*_TILES, 3), "matmul split and transposed": (*_TILES, 2),
    "matmul transposed": _TILES, "linear, fused": _TILES, "layer norm in one pass": _ROWS,
    "layer norm in one block": _ROWS, "variance by Welford": _ROWS, "root mean square norm": _ROWS,
    "layer norm backward": _ROWS, "attention": (("m", 16),), "attention, causal": (("m", 16),),
    "attention, its queries' gradient": (("m", 16),), "gelu": _FLAT, "swiglu": _FLAT,
    "polynomial": _FLAT, "multiply-add, fused": _FLAT, "sum by atomics": _FLAT,
    "running sum": _ROWS, "recurrence by a scan": _ROWS, "sums of columns": (("n", 32),),
    "largest of rows": _ROWS, "cosine": _ROWS, "transpose": (("m", 32), ("n", 32)),
    "convolution": _FLAT, "distances": _TILES,
}  # fmt: skip
"""The grid of each: numbers of programs, or sizes over blocks."""


def _checked(name: str, kernel: Any = None) -> Any:
    pair, programs = PAIRS[name], KERNELS[name]

    def programs_of(meta: Any) -> tuple[int, ...]:
        return tuple(
            axis if isinstance(axis, int) else -(-meta[axis[0]] // axis[1]) for axis in programs
        )

    grid = programs if isinstance(programs[0], int) else programs_of

    sizes = {size: (1, None) for size in ("m", "n", "k") if size in pair.arguments}
    given = {**pair.arguments, **pair.constants}
    return kernellab.check(kernel or pair.kernel, grid, **given, sizes=sizes)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_proved_right(name) -> None:
    findings = _checked(name)
    assert findings.every_size == "proved", findings.notes
    assert not findings.findings


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("fault", ["dropped mask", "off by one"])
def test_a_twin_with_a_fault_is_refuted_by_a_launch(name, fault, tmp_path) -> None:
    """An access without its mask, or an element too far, is out of bounds for some size."""
    twin = next(one for one in mutants(PAIRS[name], tmp_path) if one[0].startswith(fault))
    findings = _checked(name, twin[1])
    assert findings.every_size == "refuted", (twin[0], findings.notes)
    assert "out-of-bounds" in findings.kinds
