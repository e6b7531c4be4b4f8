"""A tree of scopes while it grows: what is measured again in a scope adds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernellab.profiling.profiles.records import Scope, ScopeKind


@dataclass(eq=False)
class GrowingScope:
    """A scope whose metrics and children grow."""

    name: str
    kind: ScopeKind
    metrics: dict[str, float] = field(default_factory=dict)
    children: dict[tuple[str, ScopeKind], GrowingScope] = field(default_factory=dict)

    def child(self, name: str, kind: ScopeKind) -> GrowingScope:
        """The scope of that name in this one, made where it is not there."""
        return self.children.setdefault((name, kind), GrowingScope(name, kind))

    def add(self, metrics: Mapping[str, float]) -> None:
        """Add to what was measured."""
        for name, number in metrics.items():
            self.metrics[name] = self.metrics.get(name, 0) + number

    def grown(self) -> Scope:
        """The scope as it is now."""
        inner = tuple(one.grown() for one in self.children.values())
        return Scope(self.name, self.kind, dict(self.metrics), inner)
