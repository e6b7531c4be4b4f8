"""All cases together."""

import torch

from tests.cases.arithmetic import FLOATS, INTEGERS, arithmetic_cases
from tests.cases.calls import call_cases
from tests.cases.case import Case
from tests.cases.control import control_cases
from tests.cases.descriptors import descriptor_cases
from tests.cases.foreign import foreign_cases
from tests.cases.memory import memory_cases
from tests.cases.pointers import pointer_cases
from tests.cases.products import product_cases
from tests.cases.recent import recent_cases
from tests.cases.tiles import tile_cases

CASES: list[Case] = [
    *arithmetic_cases(), *tile_cases(), *product_cases(), *memory_cases(), *pointer_cases(),
    *descriptor_cases(), *control_cases(), *foreign_cases(), *call_cases(), *recent_cases(),
]  # fmt: skip

KIND = {
    dtype: "f" if dtype.is_floating_point else str(dtype).startswith("torch.u")
    for dtype in [torch.bool, *INTEGERS, *FLOATS, torch.float8_e4m3fn, torch.float8_e5m2]
}
"""Float, signed or unsigned: what decides which operation an expression becomes."""


def one_of_each_kernel() -> list[Case]:
    """One case of every kernel under every set of constexprs and element types."""
    kept: dict[tuple[object, ...], Case] = {}
    for case in CASES:
        arguments = case.make().values()
        constants = tuple(value for value in arguments if isinstance(value, str | int))
        kinds = tuple(KIND[value.dtype] for value in arguments if isinstance(value, torch.Tensor))
        kept[(case.kernel, constants, kinds)] = case
    return list(kept.values())
