"""The answers at the top of a kernel's card: its tiles, what to fix first, and what an edit
changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernellab.checker.records import Findings
from kernellab.common.text import counted, time_text
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.resources import most_registers
from kernellab.compiler.records import Resources
from kernellab.errors import CompileError, Diagnostic, MachineError
from kernellab.profiling.diagnosis.records import WORTH_SAYING, Diagnosis
from kernellab.viz.diagnostics import tone_of
from kernellab.viz.kit.data import Link, Tile

_CHECK = Link(-1, "check", "The launch with every detector on", "check", {})
_DIAGNOSIS = Link(-1, "diagnosis", "Why it is slow, what costs most first", "diagnosis", {})


@dataclass(frozen=True)
class Verdict:
    """What is known of a launch beside its compilation; None where it is not known yet."""

    findings: Findings | None = None
    diagnosis: Diagnosis | None = None


def tiles_of(compilation: Compilation, verdict: Verdict | None) -> list[Tile]:
    """The tiles of a kernel: its checks and its estimated time, occupancy, registers.

    Args:
        compilation: of the kernel.
        verdict: what is known of its launch; None leaves out the first two tiles.
    """
    tiles = [] if verdict is None else [_checks(verdict.findings), _estimate(verdict.diagnosis)]
    return [*tiles, *_occupancy(compilation), *_registers(compilation)]


def _checks(findings: Findings | None) -> Tile:
    if findings is None:
        return Tile("checks", "not run", "the launch is not checked yet", link=_CHECK)
    if not len(findings):
        right = "results are right" if findings.compared else "results not compared"
        return Tile("checks", "passed", right, "pass", link=_CHECK)
    worst = min(findings, key=lambda finding: finding.severity != "error")
    place = "" if worst.line is None else f" on line {worst.line}"
    tone = tone_of(findings)
    number = counted(len(findings), "finding")
    return Tile("checks", number, f"{worst.kind}{place}", tone, link=_CHECK)


def _estimate(diagnosis: Diagnosis | None) -> Tile:
    if diagnosis is None or diagnosis.microseconds is None:
        return Tile("estimated time", "not known", link=_DIAGNOSIS)
    time = f"about {time_text(diagnosis.microseconds)}"
    detail = ""
    if diagnosis.parts:
        detail = f"bound by {max(diagnosis.parts, key=lambda part: diagnosis.parts[part])}"
    if diagnosis.estimate is not None:
        detail += f", ±{diagnosis.estimate.error:.0%}"
    return Tile("estimated time", time, detail, link=_DIAGNOSIS)


def _occupancy(compilation: Compilation) -> Iterator[Tile]:
    if not compilation.can_answer("occupancy"):
        return
    try:
        known = compilation.occupancy()
    except (CompileError, MachineError):
        return
    detail = f"{known.warps} of {known.most_warps} warps"
    if known.warps < known.most_warps:
        detail += f", limited by {' and '.join(known.limited_by)}"
    yield Tile("occupancy", f"{known.fraction:.0%}", detail, share=known.fraction)


def _registers(compilation: Compilation) -> Iterator[Tile]:
    resources = _resources(compilation)
    if resources is None:
        return
    most = most_registers(compilation.target)
    spilled = f"{resources.spills:,} bytes spilled" if resources.spills else "nothing spilled"
    yield Tile(
        "registers",
        f"{resources.registers} / {most}",
        spilled,
        "warn" if resources.spills else "",
        resources.registers / most,
    )


def _resources(compilation: Compilation) -> Resources | None:
    if not compilation.can_answer("resources"):
        return None
    try:
        return compilation.resources
    except (CompileError, MachineError):
        return None


def lead_of(verdict: Verdict | None) -> tuple[str, tuple[Link, ...]]:
    """One sentence that says what to fix first, with the link to it; "" if nothing is known."""
    if verdict is None or verdict.findings is None:
        return "", ()
    errors = [finding for finding in verdict.findings if finding.severity == "error"]
    if errors:
        return f"Fix first: {_named(errors[0])}", (_CHECK,)
    if verdict.diagnosis is not None and len(verdict.diagnosis):
        costly = verdict.diagnosis[0]
        if costly.cost >= WORTH_SAYING:
            words = f"Improve first, {costly.cost:.0%} of the time: {_named(costly)}"
            return words, (_DIAGNOSIS,)
    if len(verdict.findings):
        return f"Look at {_named(verdict.findings[0])}", (_CHECK,)
    return ("Nothing to fix.", ()) if verdict.diagnosis is not None else ("", ())


def _named(diagnostic: Diagnostic) -> str:
    place = "" if diagnostic.line is None else f" on line {diagnostic.line}"
    return f"{diagnostic.kind}{place}: {diagnostic.what}."


@dataclass(frozen=True)
class Numbers:
    """What an edit of a kernel may change."""

    registers: int
    spills: int
    shared_bytes: int
    occupancy: float | None

    @classmethod
    def of(cls, compilation: Compilation) -> Numbers | None:
        """Return those of a compilation; None if its resources are not known."""
        resources = _resources(compilation)
        if resources is None:
            return None
        share = compilation.occupancy().fraction if compilation.can_answer("occupancy") else None
        return cls(resources.registers, resources.spills, resources.shared_bytes, share)


def change_of(before: Numbers, now: Numbers) -> str:
    """What an edit changed: "Since the last run: -14 registers, occupancy 25% to 37%."; "" if
    nothing that is on the card.
    """
    changed = []
    if now.registers != before.registers:
        more = now.registers - before.registers
        changed.append(f"{more:+d} {'register' if abs(more) == 1 else 'registers'}")
    if now.spills != before.spills:
        changed.append(f"spills {before.spills:,} to {now.spills:,} bytes")
    if now.shared_bytes != before.shared_bytes:
        changed.append(f"shared memory {before.shared_bytes:,} to {now.shared_bytes:,} bytes")
    if None not in (now.occupancy, before.occupancy) and now.occupancy != before.occupancy:
        changed.append(f"occupancy {before.occupancy:.0%} to {now.occupancy:.0%}")
    return f"Since the last run: {', '.join(changed)}." if changed else ""
