"""Names of GPUs, as people write them."""

import pytest

from kernellab.compiler import targets
from kernellab.errors import TargetError
from kernellab.records import Target

NAMES = [
    "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "gfx90a", "gfx942",
    "gfx950", "gfx1100", "gfx1201",
]  # fmt: skip


GPUS = dict(
    zip(
        NAMES,
        (
            *("T4", "A100", "A40", "L40S", "H100", "B200", "B300", "RTX 5090"),
            *("MI250", "MI300X", "MI355X", "RX 7900 XTX", "RX 9070 XT"),
        ),
        strict=True,
    )
)


def test_the_targets_are_the_thirteen_of_the_readme():
    assert [target.name for target in targets.SUPPORTED_TARGETS] == NAMES
    assert targets.DEFAULT_TARGET.name == "sm_90"


@pytest.mark.parametrize("name", NAMES)
def test_every_target_is_found_by_its_own_name(name):
    assert targets.parse_target(name).name == name
    assert targets.parse_target(targets.parse_target(name)).name == name


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("cuda:90", Target("cuda", "90")), ("sm90", Target("cuda", "90")),
        ("SM_90a", Target("cuda", "90")), ("cuda:sm_120", Target("cuda", "120")),
        ("hip:gfx942", Target("hip", "gfx942")), (" gfx90a ", Target("hip", "gfx90a")),
    ],
)  # fmt: skip
def test_other_spellings(written, target):
    assert targets.parse_target(written) == target


@pytest.mark.parametrize(
    ("written", "name"),
    [
        *((gpu, name) for name, gpu in GPUS.items()), ("h100", "sm_90"), ("H200", "sm_90"),
        ("nvidia h100", "sm_90"), ("H100-SXM5-80GB", "sm_90"), ("NVIDIA A100-PCIE-40GB", "sm_80"),
        ("NVIDIA GeForce RTX 4090", "sm_89"), ("rtx4090", "sm_89"), ("4090", "sm_89"),
        ("l4", "sm_89"), ("gb200", "sm_100"), ("Instinct MI300X", "gfx942"), ("7900xtx", "gfx1100"),
    ],
)  # fmt: skip
def test_a_gpu_is_a_target_by_its_name(written, name):
    assert targets.parse_target(written).name == name


def test_of_a_gpu_that_is_misspelled_the_nearest_is_named():
    with pytest.raises(TargetError) as refused:
        targets.parse_target("h10")
    caught = refused.value
    assert "Did you mean 'h100'?" in str(caught)


def test_several_targets():
    expected = [Target("cuda", "80"), Target("hip", "gfx942")]
    assert targets.parse_targets("sm_80, gfx942") == expected
    assert targets.parse_targets(["sm_80", "gfx942", "cuda:80"]) == expected
    assert targets.parse_targets(Target("cuda", "80")) == expected[:1]


def test_an_unknown_target_names_the_nearest_and_lists_all():
    with pytest.raises(TargetError) as refused:
        targets.parse_target("sm_91")
    caught = refused.value
    assert str(caught) == (
        "The target must be a GPU that KernelLab supports, got 'sm_91'.\n"
        f"Did you mean 'sm_90'? Targets: {', '.join(f'{name} ({GPUS[name]})' for name in NAMES)}."
    )


@pytest.mark.parametrize("name", ["hip:90", "cuda:gfx942", "", "V100", 90, None])
def test_nonsense_is_refused(name, raised):
    raised(TargetError, targets.parse_target, name)


def test_an_empty_list_is_refused(raised):
    raised(TargetError, targets.parse_targets, ",")


def test_every_target_has_a_limit_of_shared_memory():
    # Two that Triton's own sources and error messages name: 227 KiB on Hopper, 64 KiB on CDNA 3.
    assert targets.shared_limit(Target("cuda", "90")) == 232448
    assert targets.shared_limit(Target("hip", "gfx942")) == 65536
    assert all(targets.shared_limit(target) for target in targets.SUPPORTED_TARGETS)
