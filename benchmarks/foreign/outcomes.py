"""What came of a sample, as the process that runs it tells the one that started it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar


@dataclass
class Outcome:
    """What came of one sample.

    Attributes:
        sample: its name.
        verdict: "right", "wrong", "error", "not run", "too slow", "died".
        launches: kernels launched, without those that an autotuner only tried.
        seconds: how long it took, the reference included.
        why: the tensors that are apart, or the error.
        findings: what `kernellab.check` said of the launches.
        times: the kernels that were timed, as the fields of `timing.LaunchTimes`.
    """

    MARK: ClassVar[str] = "outcome of a sample: "

    sample: str
    verdict: str = "right"
    launches: int = 0
    seconds: float = 0.0
    why: str = ""
    findings: list[str] = field(default_factory=list)
    times: list[dict[str, Any]] = field(default_factory=list)

    def line(self) -> str:
        """One line, told from what a library prints by its beginning."""
        return self.MARK + json.dumps(asdict(self))

    @classmethod
    def of_line(cls, line: str) -> Outcome:
        return cls(**json.loads(line.removeprefix(cls.MARK)))
