"""Compile entries of the corpus: for a few targets, or all with KERNELLAB_CORPUS=all."""

import os
from collections.abc import Sequence

from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import compile
from kernellab.compiler.targets import SUPPORTED_TARGETS, parse_target
from kernellab.records import Target
from tests.corpus.entries import ENTRIES, Entry
from tests.corpus.launches import LAUNCHES

WHOLE = os.environ.get("KERNELLAB_CORPUS") == "all"


def entry(name: str) -> Entry:
    return {one.name: one for one in ENTRIES}[name]


def compile_entry(one: Entry, target: str | Target, record: str = "passes") -> Compilation:
    """`kernellab.compile` of an entry for a target; CompileError where the target refuses it."""
    compilation = compile(
        one.kernel, *one.types, constants=one.constants, options=one.options,
        target=parse_target(target), record=record,
    )  # fmt: skip
    assert isinstance(compilation, Compilation)
    return compilation


def accepting(one: Entry) -> list[Target]:
    """Every target that compiles the entry, within a bearable time."""
    return [
        target
        for target in SUPPORTED_TARGETS
        if target.name not in one.refused and target.name not in one.left_out
    ]


def launched(targets: Sequence[str]) -> list[tuple[Entry, str]]:
    """Every pair of an entry that has a launch, and of a target that compiles it."""
    return [
        (one, target.name)
        for one in ENTRIES
        for target in accepting(one)
        if one.name in LAUNCHES and target.name in targets
    ]


def name_of(value: Entry | str) -> str:
    return value if isinstance(value, str) else value.name


def chosen(one: Entry) -> list[Target]:
    """The targets that this test run compiles the entry for."""
    return accepting(one) if WHOLE else [parse_target(name) for name in one.targets]


def cases() -> list[tuple[Entry, Target]]:
    """Every pair of an entry and a target in this test run."""
    return [(one, target) for one in ENTRIES for target in chosen(one)]


def case_name(case: tuple[Entry, Target]) -> str:
    return f"{case[0].name}-{case[1]}"
