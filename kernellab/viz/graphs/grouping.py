"""Elements in groups, so that a large graph is drawn by its modules."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.viz.graphs.data import GroupData

Path = tuple[tuple[str, str], ...]
"""Groups that an element is in, the outermost first: names, which are unique, and kinds."""

MOST_BESIDE = 150
"""Most elements of a group that are drawn side by side; of more, runs become separate groups."""


def common(paths: Sequence[Path]) -> Path:
    """The groups that all are in."""
    if not paths:
        return ()
    shared = []
    for places in zip(*paths):
        if len(set(places)) > 1:
            break
        shared.append(places[0])
    return tuple(shared)


def with_their_users(
    paths: Sequence[Path | None], inputs: Sequence[Sequence[int]], results: int
) -> list[Path]:
    """Return each element's groups. An element without known groups (None: a parameter) is in the
    groups of its users, except the element that is the graph's results (-1 for none).
    """
    users: list[list[int]] = [[] for _ in paths]
    for user, taken in enumerate(inputs):
        for input in taken if user != results else ():
            users[input].append(user)
    groups: list[Path] = [()] * len(paths)
    for number in reversed(range(len(paths))):  # users come after what they use
        own = paths[number]
        groups[number] = common([groups[user] for user in users[number]]) if own is None else own
    return groups


def grouped(paths: Sequence[Path]) -> tuple[tuple[int, ...], tuple[GroupData, ...]]:
    """The group of each element, and all groups."""
    numbers: dict[Path, int] = {}
    made: list[GroupData] = []
    innermost = []
    for path in paths:
        parent = -1
        for depth in range(1, len(path) + 1):
            here = path[:depth]
            if here not in numbers:
                numbers[here] = len(made)
                made.append(GroupData(*path[depth - 1], parent))
            parent = numbers[here]
        innermost.append(parent)
    return _in_runs(innermost, made)


def _in_runs(
    innermost: list[int], made: list[GroupData]
) -> tuple[tuple[int, ...], tuple[GroupData, ...]]:
    """Divide the direct elements of groups that have too many into runs."""
    members: dict[int, list[int]] = {}
    for element, group in enumerate(innermost):
        members.setdefault(group, []).append(element)
    for group, elements in members.items():
        if len(elements) <= MOST_BESIDE:
            continue
        size = max(40, -(-len(elements) // MOST_BESIDE))
        for start in range(0, len(elements), size):
            run = elements[start : start + size]
            words = f"{start + 1} to {start + len(run)} of {len(elements)}"
            for element in run:
                innermost[element] = len(made)
            made.append(GroupData(words, "", group))
    return tuple(innermost), tuple(made)
