"""The softmax over rows that most attacks and honest submissions answer."""

from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent
ATTACKS, HONEST = FOLDER / "attacks.py", FOLDER / "honest.py"


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def cases() -> list[Any]:
    return [(torch.randn(6, 20, generator=torch.Generator().manual_seed(0)),)]
