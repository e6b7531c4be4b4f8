"""Whether a config computed what is right."""

from __future__ import annotations

from kernellab.launch.differences import Contents, differences_between, tolerance
from kernellab.records.bisections import Difference


class WrongResult(Exception):
    """The results differ from those expected."""


def check_results(
    found: Contents, expected: Contents, compared_with: str, rtol: float | None, atol: float | None
) -> None:
    """Compare tensors with those expected, by name; `compared_with` says whose these are.

    Raises:
        WrongResult: one differs by more than it may.
    """
    for name, want in expected.items():
        allowed = tolerance(want, rtol, atol)
        for one in differences_between({name: want}, {name: found[name]}, *allowed):
            raise WrongResult(_format_difference(one, compared_with))


def _format_difference(one: Difference, compared_with: str) -> str:
    place = f"[{', '.join(map(str, one.index))}]" if one.index else ""
    share = f"{one.elements:,} of {one.size:,} elements"
    return (
        f"{one.argument} differs from that of {compared_with} in {share}; most at "
        f"{one.argument}{place}: {one.found:g} where {one.expected:g} is expected"
    )
