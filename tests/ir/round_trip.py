"""MLIR's text into xDSL, and back into MLIR; for a process of its own, since MLIR may abort."""

import difflib
import re
from dataclasses import dataclass

from kernellab import triton_api
from kernellab.compiler.compilations import Compilation
from kernellab.ir.syntax import read_module, write_module
from kernellab.records import Target
from tests.corpus.loader import WHOLE, compile_entry, entry

FIRST_PASS_OF_LLVM = "llir.to_llvmir"


@dataclass(frozen=True)
class RoundTrips:
    snapshots: int
    """Distinct texts that went round."""
    failures: tuple[str, ...]
    """What did not come back the same: the snapshot's label, and why."""


def round_trip_entry(name: str, target: Target, every_pass: bool) -> RoundTrips:
    """Compile an entry of the corpus, and send its modules round: after every pass, or stages."""
    compilation = compile_entry(entry(name), target, record="passes" if every_pass else "stages")
    texts = snapshots(compilation) if every_pass else stage_texts(compilation)
    if every_pass and not WHOLE:
        texts = with_new_words(texts)
    failures = [
        f"{label}: {problem}"
        for text, label in texts.items()
        if (problem := problem_of(text, target))
    ]
    return RoundTrips(len(texts), tuple(failures))


def stage_texts(compilation: Compilation) -> dict[str, str]:
    names = [name for name in ("ttir", "ttgir") if name in compilation.stages]
    return {compilation.stages[name].text: name for name in names}


def snapshots(compilation: Compilation) -> dict[str, str]:
    """Every distinct text of TTIR and TTGIR, and the first pass that made it."""
    found: dict[str, str] = {}
    for run in compilation.passes:
        if run.label == FIRST_PASS_OF_LLVM:
            return found
        found.setdefault(run.text.read(), run.label)
    raise AssertionError(f"no pass {FIRST_PASS_OF_LLVM}")


WORD = re.compile(r"""(?<![%\w.])[a-z_][a-z_.]+\b""", re.IGNORECASE)
"""What a reader and a writer tell apart: names of operations, attributes, types and keywords."""
known: set[str] = set()
"""The words of all texts that this process sent round."""


def with_new_words(texts: dict[str, str]) -> dict[str, str]:
    """Those with a word that none before them had, and the last of all."""
    kept = {}
    for number, (text, label) in enumerate(texts.items(), start=1):
        words = set(WORD.findall(text))
        if words - known or number == len(texts):
            kept[text] = label
        known.update(words)
    return kept


def problem_of(text: str, target: Target) -> str:
    """Why the text does not come back the same, with locations and names; "" where it does."""
    generic = triton_api.generic_form(text, target)
    module = read_module(generic)
    try:
        module.verify()
    except Exception as error:
        return f"a typed op does not fit: {str(error)[-300:]}"
    expected = str(triton_api.parse_mlir(generic, target))
    returned = str(triton_api.parse_mlir(write_module(module), target))
    if returned == expected:
        return without_locations(text, returned, target)
    return first_difference(expected, returned)


def without_locations(text: str, returned: str, target: Target) -> str:
    """The same question with no generic form on the way: did it lose anything but locations?"""
    plain = [triton_api.parse_mlir(one, target).str_nodebug() for one in (text, returned)]
    return "" if plain[0] == plain[1] else first_difference(*plain)


def first_difference(expected: str, returned: str) -> str:
    lines = difflib.unified_diff(expected.splitlines(), returned.splitlines(), lineterm="", n=0)
    return "\n".join([line for _, line in zip(range(8), lines)])
