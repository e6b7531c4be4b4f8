"""All cases together."""

from tests.interpreter.arithmetic_cases import arithmetic_cases
from tests.interpreter.call_cases import call_cases
from tests.interpreter.cases import Case
from tests.interpreter.control_cases import control_cases
from tests.interpreter.descriptor_cases import descriptor_cases
from tests.interpreter.foreign_cases import foreign_cases
from tests.interpreter.memory_cases import memory_cases
from tests.interpreter.pointer_cases import pointer_cases
from tests.interpreter.product_cases import product_cases
from tests.interpreter.recent_cases import recent_cases
from tests.interpreter.tile_cases import tile_cases

CASES: list[Case] = [
    *arithmetic_cases(),
    *tile_cases(),
    *product_cases(),
    *memory_cases(),
    *pointer_cases(),
    *descriptor_cases(),
    *control_cases(),
    *foreign_cases(),
    *call_cases(),
    *recent_cases(),
]
