"""Show a fix of a finding only if it was tried: the changed kernel is checked on the launch."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab import triton_api
from kernellab.checker.records import Finding, Findings, Proposal
from kernellab.checker.repairs.readings import WrongTensor, reading
from kernellab.checker.repairs.rewrites import WRONG
from kernellab.checker.repairs.searching import Tries, search
from kernellab.checker.repairs.sources import NotReadable, Source, called, in_brackets, keyword_of
from kernellab.common.time_limits import OutOfTime, limited
from kernellab.errors import Change, SourcePosition, changes_between
from kernellab.launch.differences import Within, is_within

TRIES = Tries(seconds=3.0, most=100, batch=1)
"""How much is tried for a wrong result."""

_SECONDS = 2.0
"""A changed kernel that is checked longer than this is not one that is shown. If the check itself
took longer, nothing is tried.
"""

_MOST_PLACES = 3
"""The most places of a proposal's expression that are tried."""

_MOST_FINDINGS = 4
"""The most findings for which changes are tried."""


@dataclass(frozen=True)
class Trial:
    """The launch on which changes are tried.

    Attributes:
        kernel: the plain kernel.
        values: its arguments, by parameter.
        examine: checks the launch with another kernel.
        results: runs the launch with a kernel on copies of the arguments, and returns those.
        expected: the expected results, by parameter.
        seconds: how long the check took.
    """

    kernel: Any
    values: Mapping[str, Any]
    examine: Callable[[Any], Findings]
    results: Callable[[Any], Mapping[str, Any]]
    expected: Mapping[str, Within]
    seconds: float

    def completed(self, findings: Findings) -> Findings:
        """Return the findings with the changes that were tried and help."""
        if not findings.findings or self._cannot_try():
            return findings
        known: list[Finding] = []
        left = _MOST_FINDINGS
        for finding in findings.findings:
            is_tried = left > 0 and (finding.kind == "wrong-result" or bool(finding.proposals))
            left -= is_tried
            known.append(self._with_fix(finding, findings) if is_tried else finding)
        return replace(findings, findings=tuple(known))

    def _cannot_try(self) -> bool:
        return (
            self.seconds > _SECONDS
            or triton_api.is_given(self.kernel)
            or triton_api.is_variant(self.kernel)
        )

    @property
    def _source(self) -> Source:
        return Source(str(self.kernel.src), self.values)

    def _with_fix(self, finding: Finding, before: Findings) -> Finding:
        if finding.kind != "wrong-result":
            return self._with_proposal(finding, before)
        repair = search(self._source, WRONG, self._made, self._judge(finding, before), TRIES)
        if repair is None:
            said = self._said(finding)
            return replace(finding, advice=f"{said} {finding.advice}".strip())
        changes = self._changes(repair.source)
        words = fix_words(repair.reason, "With this change, the results are right", changes)
        return replace(finding, advice=words, changes=changes, verified=True)

    def _made(self, sources: Sequence[str]) -> list[Any]:
        return [triton_api.with_source(self.kernel, source) for source in sources]

    def _judge(self, finding: Finding, before: Findings) -> Callable[[str, Any], bool]:
        def judge(_: str, kernel: Any) -> bool:
            try:
                with limited(_SECONDS):
                    after = self.results(kernel)
            except (Exception, OutOfTime):  # whatever it raises, it does not help
                return False
            is_right = all(is_within(after[name], due) for name, due in self.expected.items())
            return is_right and self._helps(kernel, finding, before)

        return judge

    def _said(self, finding: Finding) -> str:
        """Return what the wrong results say by themselves."""
        try:
            with limited(_SECONDS):
                left = self.results(self.kernel)[finding.argument]
        except (Exception, OutOfTime):  # a run that fails has no results
            return ""
        due = self.expected[finding.argument]
        text = str(self.kernel.src)
        return reading(
            WrongTensor(finding.argument, left, due.values, due.allowed, self.values, text)
        )

    def _with_proposal(self, finding: Finding, before: Findings) -> Finding:
        for proposal in finding.proposals:
            sources = dict.fromkeys(proposed(self._source, self.kernel, finding, proposal))
            for source in list(sources)[:_MOST_PLACES]:
                if self._helps(triton_api.with_source(self.kernel, source), finding, before):
                    words = f"{finding.advice} {proposal.words} {TRIED}".strip()
                    return replace(
                        finding, advice=words, changes=self._changes(source), verified=True
                    )
        return finding

    def _helps(self, kernel: Any, finding: Finding, before: Findings) -> bool:
        """Return whether a finding goes away with another kernel, and no new one appears."""
        try:
            with limited(_SECONDS):
                after = self.examine(kernel)
        except (Exception, OutOfTime):  # whatever it raises, it does not help
            return False
        remaining = [_key(each) for each in after.findings]
        return _key(finding) not in remaining and {*remaining} <= {*map(_key, before.findings)}

    def _changes(self, source: str) -> tuple[Change, ...]:
        first = triton_api.definition_of(self.kernel).line
        return changes_between(str(self.kernel.src), source, first)


TRIED = "This change was tried: the finding goes away, and no new one appears."


def _key(finding: Finding) -> tuple[str, str]:
    return finding.kind, finding.argument


def fix_words(reason: str, effect: str, changes: Sequence[Change]) -> str:
    """Return a change as text: why it is needed, what it does, and the new lines."""
    lines = "\n".join(
        f"line {change.line}: {change.new}"
        if change.new.strip()
        else f"line {change.line}: deleted"
        for change in changes
    )
    return f"{reason} {effect}:\n{lines}"


def proposed(source: Source, kernel: Any, finding: Finding, proposal: Proposal) -> Iterator[str]:
    """Yield the sources that a proposal may mean: the expressions of its text on the finding's
    line, or the mask of the access there; none if the line is not the kernel's own.
    """
    place = finding.position
    if place is None or finding.called_from:
        return
    try:
        statement = _statement_at(source, kernel, place)
    except NotReadable:
        return
    if statement is None:
        return
    for node in (node for node in source.nodes if source.is_inside(node, statement)):
        if proposal.old and isinstance(node, ast.expr):
            if _same(source.of(node), proposal.old):
                yield source.replaced((node, proposal.new))
        elif isinstance(node, ast.Call) and called(node) in ("load", "store", "atomic_add"):
            yield from _masked(source, node, finding.argument, proposal.new)
    for node in source.nodes:  # an index or a mask may have a name, and be on a line above
        if proposal.old and isinstance(node, ast.Compare | ast.BinOp):
            if _same(source.of(node), proposal.old):
                yield source.replaced((node, proposal.new))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                yield from _remainder(source, node, proposal)


def _remainder(source: Source, node: ast.BinOp, proposal: Proposal) -> Iterator[str]:
    """Yield a remainder that is never negative, where the source has a name for the divisor."""
    dividend, _, divisor = proposal.old.rpartition(" % ")
    if divisor and _same(source.of(node.left), dividend.removeprefix("(").removesuffix(")")):
        whole, named = source.of(node), in_brackets(source.of(node.right))
        yield source.replaced((node, f"({whole} + {named}) % {named}"))


def _masked(source: Source, call: ast.Call, argument: str, condition: str) -> Iterator[str]:
    if not call.args or not any(
        isinstance(node, ast.Name) and node.id == argument for node in ast.walk(call.args[0])
    ):
        return
    given = keyword_of(call, "mask")
    if given is None:
        yield source.replaced((call, f"{source.of(call)[:-1].rstrip(', ')}, mask={condition})"))
    else:
        mask = in_brackets(source.of(given.value))
        yield source.replaced((given.value, f"{mask} & ({condition})"))


def _same(mine: str, other: str) -> bool:
    return "".join(mine.split()) == "".join(other.split())


def _statement_at(source: Source, kernel: Any, place: SourcePosition) -> ast.stmt | None:
    definition = triton_api.definition_of(kernel)
    line = place.line - definition.line + 1
    if place.file != definition.file:
        return None
    around = [
        node
        for node in source.nodes
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return around[-1] if around else None
