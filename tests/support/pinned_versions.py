"""The versions of torch and Triton that saved outputs and messages are from."""

import re
from importlib.metadata import version
from pathlib import Path

_CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def are_installed() -> bool:
    """Return whether torch and Triton have the versions in constraints.txt."""
    pins = _CONSTRAINTS.read_text().splitlines()
    pinned = {pin.partition("==")[2] for pin in pins if re.match("(torch|triton)==", pin)}
    return pinned == {version("torch").partition("+")[0], version("triton")}
