"""The rules: one family of reasons why kernels are slow a file.

    @rule("spills")
    def spills(evidence: Evidence) -> Iterator[CostFinding]: ...

Nothing has to list them: the files of this folder are imported when the first kernel is diagnosed.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.errors import Severity, SourcePosition
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import SEVERE, CostFinding

Find = Callable[[Evidence], Iterator[CostFinding]]


@dataclass(frozen=True)
class Rule:
    """A reason why kernels are slow.

    Attributes:
        find: what it finds in a kernel that has TTGIR; nothing if what it reads is not known.
    """

    kinds: tuple[str, ...]
    find: Find


_RULES: list[Rule] = []


def rule(*kinds: str) -> Callable[[Find], Find]:
    """Decorates what finds something in a kernel's evidence."""

    def register(find: Find) -> Find:
        _RULES.append(Rule(kinds, find))
        return find

    return register


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return tuple(_RULES)


def finding(
    kind: str,
    what: str,
    cost: float,
    position: SourcePosition | None,
    advice: str,
    evidence: Mapping[str, Any],
    source: str,
    *,
    severe_from: float = SEVERE,
) -> CostFinding:
    """Return a finding: a warning from `severe_from` of the time on, a note if it has no cost."""
    severity: Severity = "note" if cost <= 0 else "warning" if cost >= severe_from else "remark"
    return CostFinding(
        severity,
        kind,
        what,
        position,
        advice=advice,
        cost=round(min(cost, 1.0), 4),
        evidence=evidence,
        source=source,
    )
