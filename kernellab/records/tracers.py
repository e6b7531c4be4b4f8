"""What came of capturing a function with one of torch's tracers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["whole", "parts", "fixed", "wrong", "refused"]


@dataclass(frozen=True)
class Traced:
    """A function, captured by one tracer and called again.

    Attributes:
        tracer: "jit.trace", "jit.script", "fx.symbolic_trace", "lazy tensors", "export", "compile".
        outcome: "whole": one program that does what the function does, also with other inputs;
            "parts": several, with Python between them; "fixed": right for the inputs that it was
            captured with, and an error for others; "wrong": another result than the function's,
            or another effect, and no error; "refused": an error while it was captured.
        programs: how many there are for one call.
        operations: how many they have; None where a tracer does not say.
        says: the error, what differs, or where it was parted.
    """

    tracer: str
    outcome: Outcome
    programs: int
    operations: int | None
    says: str
