"""Every case against its reference, and however many programs run together."""

from __future__ import annotations

import pytest

from kernellab.interpreter import launcher
from kernellab.interpreter.grid import batches
from tests.interpreter.all_cases import CASES
from tests.interpreter.cases import Case

BY_NAME = {case.name: case for case in CASES}


def test_names_differ() -> None:
    assert len(BY_NAME) == len(CASES)


@pytest.mark.filterwarnings("error::RuntimeWarning", "error:The given NumPy array is not writable")
@pytest.mark.parametrize("name", BY_NAME)
def test_case(name: str) -> None:
    case = BY_NAME[name]
    case.check(case.launch())
