"""The verdict of the judge, as plain data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal
from xml.etree import ElementTree

from kernellab.common.text import format_bytes, percent, time_text
from kernellab.errors import Diagnostic, visible
from kernellab.records.display import HasCard
from kernellab.records.launches import Difference

STAGES = (
    "parses", "compiles", "runs", "safe", "right", "deterministic", "within budget",
)  # fmt: skip
"""The stages of judging, in this order; a verdict names the last stage that was passed."""

SCHEMA = "kernellab.verdict/1"
LARGEST = 8_000
"""The most bytes of a verdict as JSON."""


@dataclass(frozen=True)
class JudgedKernel:
    """The resources of a submission's kernel on a target; None if they are not known.

    Attributes:
        occupancy: the part of a multiprocessor's warps that are at work at once, 0 to 1.
        uses_tensor_cores: whether its machine code has matrix instructions.
    """

    name: str
    target: str
    registers: int | None = None
    spilled_bytes: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    uses_tensor_cores: bool | None = None

    def __str__(self) -> str:
        words = f"{self.name} on {self.target}: {self.registers} registers, "
        words += f"{self.spilled_bytes} bytes spilled, {self.shared_bytes} bytes shared"
        words += "" if self.occupancy is None else f", occupancy {percent(self.occupancy)}"
        return words + ", tensor cores" * bool(self.uses_tensor_cores)


class Ended(Exception):
    """Judging ended before the last stage.

    Attributes:
        reached: the last stage that was passed.
        diagnostic: what keeps the submission from the next.
        facts: further fields of the verdict.
    """

    def __init__(self, reached: str, diagnostic: Diagnostic, **facts: Any) -> None:
        super().__init__(diagnostic.what)
        self.reached, self.diagnostic, self.facts = reached, diagnostic, facts


@dataclass(frozen=True)
class Verdict(HasCard):
    """The judge's verdict on a submission.

    It is true only if the submission is accepted.

    Attributes:
        verdict: "not judged" if something is missing that the judge needs, such as an operation
            that the interpreter does not know, or a reference that works.
        reached: the last stage that was passed; "" for none. `STAGES` lists them.
        diagnostic: what keeps the submission from the next stage; None if it is accepted.
        case: the case in which that happened, in words; "" for no single case.
        element: the first wrong element; None if there is none.
        cases: how many cases were right.
        equality: whether the only launch of the first case gives the right results for all inputs
            of these sizes, as `kernellab.equal` decides: "equal", "not decided", or "" if that was
            not examined.
        traced: by output, the part of its elements that a kernel stored.
        kernels: the kernels that were compiled, for each target.
        microseconds, at_least: the estimated time of the first case, and a time that no launch of
            these kernels is faster than; None if they were not estimated.
        moved_bytes: what the launches of the first case read from DRAM and write to it, if the
            caches are cold at the start of each; None if it was not estimated.
        compulsory_bytes: of the arguments and the outputs of the first case, each once.
        not_examined: what was not examined for this verdict.
    """

    submission: str
    verdict: Literal["accepted", "rejected", "not judged"]
    reached: str = ""
    diagnostic: Diagnostic | None = None
    case: str = ""
    element: Difference | None = None
    cases: int = 0
    equality: str = ""
    traced: Mapping[str, float] = field(default_factory=dict)
    kernels: tuple[JudgedKernel, ...] = ()
    microseconds: float | None = None
    at_least: float | None = None
    moved_bytes: int | None = None
    compulsory_bytes: int | None = None
    not_examined: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.verdict == "accepted"

    @property
    def kind(self) -> str:
        """The kind of the diagnostic, a word that programs may compare; "" if there is none."""
        return "" if self.diagnostic is None else self.diagnostic.kind

    @property
    def costs(self) -> str:
        """The time and the bytes of the first case in words, beside the least that is possible."""
        time, least = time_text(self.microseconds or 0), time_text(self.at_least or 0)
        moved, own = (format_bytes(size or 0) for size in (self.moved_bytes, self.compulsory_bytes))
        return f"about {time}, and at least {least}; {moved} moved, of {own} in its tensors"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict in types that JSON has (docs/judging.md), at most 8 kB as JSON."""
        data: dict[str, Any] = {
            "schema": SCHEMA,
            **asdict(replace(self, diagnostic=None, element=None)),
        }
        if self.diagnostic is not None:
            said = self.diagnostic
            data["diagnostic"] = {
                "kind": said.kind,
                "what": said.what[:_LONGEST],
                "file": None if said.position is None else said.position.file,
                "line": said.line,
                "why": said.why[:_LONGEST],
                "fix": said.advice[:_LONGEST],
            }
        if self.element is not None:
            data["element"] = {
                "output": self.element.name,
                "index": self.element.index,
                "actual": _plain(self.element.actual),
                "expected": _plain(self.element.expected),
                "count": self.element.count,
                "size": self.element.size,
            }
        data["kernels"] = list(data["kernels"])
        data["traced"] = dict(list(self.traced.items())[:_MOST_OUTPUTS])
        data["not_examined"] = [words[:_SHORT] for words in self.not_examined]
        while len(json.dumps(data)) > LARGEST and (data["kernels"] or data["not_examined"]):
            (data["kernels"] or data["not_examined"]).pop()
        for name in ("why", "fix", "what", "kind", "file"):  # a letter may take 12 bytes
            if len(json.dumps(data)) > LARGEST and data["diagnostic"]:
                data["diagnostic"][name] = (data["diagnostic"][name] or "")[: _SHORT // 2]
        return data

    def json(self) -> str:
        """Return the verdict as JSON on one line; the same submission gives the same bytes."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def diff(self, other: Verdict) -> str:
        """Return the keys in which another verdict differs, one line for each."""
        left, right = self.to_dict(), other.to_dict()
        keys = (key for key in {**left, **right} if left.get(key) != right.get(key))
        return visible("\n".join(f"{key}: {left.get(key)} -> {right.get(key)}" for key in keys))

    def sarif(self) -> dict[str, Any]:
        """Return the diagnostic as SARIF 2.1.0, which shows on the lines of a pull request."""
        results = []
        if self.diagnostic is not None:
            result: dict[str, Any] = {
                "ruleId": self.kind,
                "level": "error",
                "message": {"text": str(self.diagnostic)[:_LONGEST]},
            }
            place = self.diagnostic.position
            if place is not None:
                location = {
                    "artifactLocation": {"uri": place.file},
                    "region": {"startLine": place.line},
                }
                result["locations"] = [{"physicalLocation": location}]
            results.append(result)
        tool = {
            "driver": {"name": "kernellab judge", "rules": [{"id": r["ruleId"]} for r in results]}
        }
        return {"version": "2.1.0", "$schema": _SARIF, "runs": [{"tool": tool, "results": results}]}

    def junit(self) -> str:
        """Return the verdict as JUnit XML with one test."""
        suite = ElementTree.Element("testsuite", name="kernellab judge", tests="1")
        suite.set("failures", "1" if self.verdict == "rejected" else "0")
        suite.set("errors", "1" if self.verdict == "not judged" else "0")
        case = ElementTree.SubElement(suite, "testcase", name=self.submission)
        if self.diagnostic is not None:
            tag = "failure" if self.verdict == "rejected" else "error"
            words = _CONTROL.sub("", str(self.diagnostic))[:_LONGEST]
            ElementTree.SubElement(case, tag, type=self.kind).text = words
        return ElementTree.tostring(suite, encoding="unicode")

    def __str__(self) -> str:
        lines = [f"{self.submission}: {self.verdict}"]
        if self.diagnostic is None:
            lines[0] += f", {self.cases} cases right"
            lines[0] += ", equal for all inputs" if self.equality == "equal" else ""
        else:
            lines[0] += f", after the stage {self.reached!r}" if self.reached else ""
            lines.append(str(self.diagnostic))
            lines += [f"  in {self.case}"] if self.case else []
        for name, part in self.traced.items():
            lines.append(f"  {name}: a kernel stored {part:.0%} of it")
        lines += [f"  {kernel}" for kernel in self.kernels]
        if self.microseconds is not None:
            lines.append(f"  {self.costs}")
        lines += [f"  not examined: {words}" for words in self.not_examined]
        return visible("\n".join(lines))


_LONGEST, _SHORT, _MOST_OUTPUTS = 1_200, 200, 100
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
"""Characters that XML does not have."""


def _plain(value: Any) -> Any:
    """Return a number that JSON has; others as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
