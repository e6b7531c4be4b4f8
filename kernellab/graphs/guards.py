"""Guards, recompilations and symbolic sizes, read from torch's structured trace: which guard
failed, the values, which line added it, and what to change (`guards.toml`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernellab.common.data_files import Prose, read_data_file
from kernellab.errors.sources import SourcePosition, frames_in
from kernellab.graphs import torch_texts
from kernellab.records.graphs import (
    Guard,
    GuardFailure,
    Recompilation,
    SizeGuard,
    SizeSymbol,
    readable,
    users_position,
)

_GUARD = re.compile(r"^(?:\| )*\+- (?P<kind>[A-Z][A-Z0-9_]+): (?P<condition>.*)$")
_MANAGER = re.compile(r"source=(?P<source>[^,\n]+)")

# Recompilations: the guards that failed, the values, and what to change.


@dataclass(frozen=True)
class _Change:
    """An entry of guards.toml: the failures of one kind.

    Attributes:
        pattern: a regular expression that matches the whole failure in Dynamo's words; its groups
            `old` and `new` are the values that it names.
        advice: what to change; names of groups in braces are replaced.
        old, new: the values, where Dynamo does not name them.
    """

    pattern: str
    advice: Prose
    old: str = ""
    new: str = ""


@dataclass(frozen=True)
class _File:
    """The contents of guards.toml."""

    changes: tuple[_Change, ...]


_CHANGES: tuple[_Change, ...] = read_data_file(Path(__file__).with_suffix(".toml"), _File).changes

Functions = Mapping[str, tuple[str, SourcePosition | None]]
"""Frame -> name of its function, and where that is defined."""


def recompilations_in(
    events: Sequence[torch_texts.Event], functions: Functions, symbols: Iterable[SizeSymbol]
) -> tuple[Recompilation, ...]:
    """Return the recompilations with their reasons.

    Args:
        events: the entries of the structured trace.
        functions: the functions of the frames.
        symbols: the symbolic sizes of the frames.
    """
    known = {(symbol.frame, symbol.source): symbol for symbol in symbols}
    values = dict[str, tuple[str, str]]()
    recompilations = []
    for metadata, payload in events:
        for _, (reason, old, new) in torch_texts.artifacts(
            [(metadata, payload)], torch_texts.GUARD_VALUES
        ):
            values[reason] = old, new
        for frame, reasons in torch_texts.artifacts([(metadata, payload)], "recompile_reasons"):
            number = frame.partition("/")[0]
            function, place = functions.get(frame) or functions.get(f"{number}/0", ("", None))
            failures = tuple(
                _failure(reason, place, values.get(reason, ("", "")), known)
                for reason in (json.loads(reasons) if reasons.startswith("[") else [reasons])
            )
            words = "; ".join(str(replace(failure, position=None)) for failure in failures)
            recompilations.append(Recompilation(frame, function, words, failures))
    return tuple(dict.fromkeys(recompilations))


def _failure(
    reason: str,
    function: SourcePosition | None,
    values: tuple[str, str],
    symbols: Mapping[tuple[str, str], SizeSymbol],
) -> GuardFailure:
    """Return a failure, without the line of code and the stack that torch writes after it."""
    frame, colon, how = reason.partition(": ")
    if not colon or not re.fullmatch(r"\d+/\d+", frame):
        frame, how = "", reason
    how, _, stack = how.partition("\nUser stack trace:")
    condition, _, remark = how.partition("  # ")
    condition = readable(torch_texts.on_one_line(condition))
    position = users_position(frames_in(stack))
    symbol = next(
        (s for (of, name), s in symbols.items() if of == frame and name in condition), None
    )
    if symbol is not None and position is None:
        position = next((guard.position for guard in symbol.guards), symbol.position)
    old, new = values
    if symbol is not None and re.fullmatch(r"[\d\s<>=]*", condition.replace(symbol.source, "")):
        old = old or symbol.value
    change, groups = _change(condition)
    if change is None:
        return GuardFailure(frame, condition, position or function, old, new, _hint(remark))
    old = change.old or groups.get("old") or old
    new = change.new or groups.get("new") or new
    advice = _hint(remark) or change.advice.format(**groups)
    return GuardFailure(frame, condition, position or function, old, new, advice)


_MOST_WORDS = 2_000
"""Longest failure, in characters, that is compared with the patterns."""


def _change(condition: str) -> tuple[_Change | None, dict[str, str]]:
    """Return the entry of guards.toml for a failure, and the groups of its pattern."""
    for change in _CHANGES if len(condition) <= _MOST_WORDS else ():
        match = re.fullmatch(change.pattern, condition)
        if match is not None:
            return change, match.groupdict()
    return None, {}


def _hint(remark: str) -> str:
    """Return torch's own advice, if it is a sentence."""
    hint = re.search(r"\(HINT: (?P<text>[^\n]*\.)\)", remark)
    return hint["text"] if hint else ""


# Symbolic sizes: where each was created, and which lines added a guard or fixed it.


def symbols_in(events: Iterable[torch_texts.Event]) -> tuple[SizeSymbol, ...]:
    """Return the symbolic sizes of all frames."""
    symbols: dict[tuple[str, str], SizeSymbol] = {}
    for metadata, _ in events:
        frame = torch_texts.frame_of(metadata)
        for kind in torch_texts.SIZES:
            match metadata.get(kind):
                case {"symbol": str(name), "vr": str(values), **said}:
                    source = readable(str(said.get("source", "")))
                    value = str(said.get("val", "")) if source else ""
                    place = _place(said)
                    symbols[frame, name] = SizeSymbol(frame, name, source, value, values, place)
                case {"symbol": str(name), "value": str(value), **said} if (frame, name) in symbols:
                    fixed = symbols[frame, name]
                    place = _place(said)
                    if place is None and fixed.guards:
                        place = fixed.guards[-1].position
                    guard = SizeGuard(f"{fixed.source or name} == {value}", place)
                    guards = [old for old in fixed.guards if old.position != place]
                    symbols[frame, name] = replace(fixed, fixed=value, guards=(*guards, guard))
                case {"expr": str(condition), **said}:
                    _add_guard(symbols, frame, condition, _place(said))
    return tuple(symbols.values())


def _add_guard(
    symbols: dict[tuple[str, str], SizeSymbol],
    frame: str,
    condition: str,
    position: SourcePosition | None,
) -> None:
    names = {name: symbol for (of, name), symbol in symbols.items() if of == frame}
    within = [name for name in dict.fromkeys(_NAME.findall(condition)) if name in names]
    sources = {name: symbol.source or name for name, symbol in names.items()}
    words = _NAME.sub(lambda name: sources.get(name[0], name[0]), condition)
    for pattern, operator in _RELATIONS.items():
        words = re.sub(pattern, rf"\1 {operator} \2", words)
    for name in within:
        symbol = names[name]
        guard = SizeGuard(words, position)
        if guard not in symbol.guards:
            symbols[frame, name] = replace(symbol, guards=(*symbol.guards, guard))


_NAME = re.compile(r"\b(?:s|u|zf|zuf)\d+\b")
_RELATIONS = {r"^Eq\((.+), (.+)\)$": "==", r"^Ne\((.+), (.+)\)$": "!="}


def _place(said: Mapping[Any, Any]) -> SourcePosition | None:
    """Return the user's line of a stack in an event, whose files were looked up."""
    positions = []
    for place in said.get("user_stack") or ():
        match place:
            case {"filename": str(file), "line": int(line)}:
                positions.append(SourcePosition(file, line))
    return users_position(positions)


def with_advice(
    symbols: Iterable[SizeSymbol], recompilations: Iterable[Recompilation]
) -> tuple[SizeSymbol, ...]:
    """Return symbols with the advice on what to mark or to change."""
    failed = {
        recompilation.frame
        for recompilation in recompilations
        for failure in recompilation.failures
        if "size mismatch" in failure.condition
    }
    return tuple(replace(symbol, advice=_advice_on(symbol, failed)) for symbol in symbols)


_SIZE = re.compile(r"(?P<tensor>.+)\.shape\[(?P<dim>\d+)\]")


def _advice_on(symbol: SizeSymbol, failed: Collection[str]) -> str:
    """Return what to mark or to change, in one sentence; "" if nothing is to be done. `failed` has
    the frames that were compiled again because a size of a tensor had changed.
    """
    size = _SIZE.fullmatch(symbol.source)
    if symbol.fixed:
        return (
            f"The code is only for {symbol.source or symbol.name} == {symbol.fixed}: do not mark "
            "it as dynamic, or change the line that fixes it."
        )
    if size is not None and symbol.frame in failed:
        return (
            f"Call torch._dynamo.mark_dynamic({size['tensor']}, {size['dim']}) before the first "
            "call, which saves the earlier compilation."
        )
    return ""


# Guards.


def guards_in(
    events: Iterable[torch_texts.Event], recompilations: Iterable[Recompilation]
) -> tuple[Guard, ...]:
    """Return the guards of each frame's code, with the failure of those that failed later."""
    failures: dict[str, list[str]] = {}  # by frame: "tensor 'x' size mismatch at index 0"
    for recompilation in recompilations:
        for failure in recompilation.failures:
            failures.setdefault(failure.frame, []).append(failure.condition)
    guards: list[Guard] = []
    for metadata, payload in events:
        if "dynamo_cpp_guards_str" in metadata and isinstance(payload, str):
            frame = torch_texts.frame_of(metadata)
            guards += _guards(frame, payload, failures.get(frame, ()))
    return tuple(guards)


def _guards(frame: str, text: str, failures: Iterable[str]) -> Iterator[Guard]:
    source = ""
    for line in text.splitlines():
        manager = _MANAGER.search(line)
        if "GuardManager" in line and manager:
            source = manager["source"].strip()
        guard = _GUARD.match(line)
        if guard is None or guard["kind"].endswith("MANAGER"):
            continue
        condition = guard["condition"].partition("  # ")[0].strip()
        failed = next((how for how in failures if _is_of(how, condition, source)), "")
        yield Guard(frame, guard["kind"], condition, source, failed)


def _is_of(failure: str, condition: str, source: str) -> bool:
    """Whether a guard's failure, in Dynamo's words, is of this guard."""
    if condition.startswith("check_tensor("):
        named = re.search(r"tensor '([^']+)'", failure)
        return named is not None and readable(source) == named[1]
    condition = readable(condition.partition(",")[0])
    return condition != "" and condition in failure
