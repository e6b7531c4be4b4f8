"""All cases together."""

from tests.interpreter.arithmetic_cases import arithmetic_cases
from tests.interpreter.cases import Case

CASES: list[Case] = [*arithmetic_cases()]
