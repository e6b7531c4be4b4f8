"""Every entry of the corpus compiles, or is refused for its reason, where it says so."""

import pytest

from kernellab.compiler.targets import SUPPORTED_TARGETS
from kernellab.errors import CompileError
from tests.corpus.entries import ABORTS, ENTRIES
from tests.corpus.loader import WHOLE, accepting, case_name, cases, chosen, compile_entry

NAMES = {target.name for target in SUPPORTED_TARGETS}
REFUSALS = [
    (one, target)
    for one in ENTRIES
    for target in SUPPORTED_TARGETS
    if one.refused.get(target.name, ABORTS) != ABORTS
]


def test_names_are_unique_and_targets_exist() -> None:
    assert len({one.name for one in ENTRIES}) == len(ENTRIES)
    for one in ENTRIES:
        assert {*one.targets, *one.refused, *one.left_out} <= NAMES, one.name
        assert {target.name for target in chosen(one)} <= {target.name for target in accepting(one)}


def test_every_target_is_in_a_default_run() -> None:
    assert {name for one in ENTRIES for name in one.targets} == NAMES


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            (one, target),
            marks=[] if target.name == one.targets[0] and one in ENTRIES[::2] else pytest.mark.slow,
            id=case_name((one, target)),
        )
        for one, target in cases()
    ],
)
def test_entry_compiles(case):
    one, target = case
    compilation = compile_entry(one, target, record="stages")
    assert compilation.target == target
    assert compilation.resources.registers > 0


@pytest.mark.parametrize(
    "case", REFUSALS if WHOLE else REFUSALS[:: len(REFUSALS) // 6], ids=case_name
)
def test_entry_is_refused_for_the_reason_it_states(case):
    one, target = case
    with pytest.raises(CompileError) as caught:
        compile_entry(one, target, record="stages")
    refusal = caught.value
    assert one.refused[target.name] in str(refusal)
