"""Layouts: which register of which thread, or which place in memory,
holds which element of a tile.
"""

from kernellab.records.layouts.kinds import (
    Holder,
    Layout,
    Move,
    RegisterLayout,
    SharedLayout,
    SharedPlace,
    TensorMemoryLayout,
    TensorMemoryPlace,
)
from kernellab.records.layouts.linear import (
    Bases,
    Numbers,
    Shape,
    Vector,
    sizes,
)

__all__ = [
    "Bases",
    "Holder",
    "Layout",
    "Move",
    "Numbers",
    "RegisterLayout",
    "Shape",
    "SharedLayout",
    "SharedPlace",
    "TensorMemoryLayout",
    "TensorMemoryPlace",
    "Vector",
    "sizes",
]
