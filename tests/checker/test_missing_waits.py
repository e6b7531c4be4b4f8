"""Every fault of the asynchronous kernels is found on its line, and nothing in the right ones."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

import kernellab
from kernellab import triton_api
from kernellab.checker import fixes
from kernellab.checker.records import Findings
from kernellab.compiler.passes import module_after
from kernellab.errors import CompileError, KernelLabError
from kernellab.interpreter.execution import program
from tests.corpus import launches
from tests.corpus.entries import ENTRIES
from tests.corpus.gluon_kernels import described
from tests.kernels import asynchronous, handed_on, patterns, pipelines, reported
from tests.kernels.asynchronous import is_right, launch_of
from tests.support.broken_kernels import broken, faults_of, waits_of, with_changes, without_wait
from tests.support.compiled import source_line

UNFIXED = {"copies-B", "direct_products-B", "sent-E", "passed_on-B", "passed_on-F", "passed_on-G"}
UNFIXED |= {"tensor_groups-D", "tensor_groups-F"}
"""Faults for which no change that is tried helps."""


@pytest.fixture
def _no_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixes, "MOST_WORK", -1)


def checked(kernels: Any, name: str) -> Findings:
    if name in pipelines.NAMES:
        kernel, programs, arguments, _out, _right = kernels.launched(name)
        return kernellab.check(kernel, (programs,), *arguments, target=pipelines.target_of(name))
    launch, keywords = launch_of(kernels, name)
    found = kernellab.check(*launch, **keywords)
    assert not any(" failed: " in note for note in found.notes), found.notes
    return found


clusters: Any = None
if hasattr(mbarrier, "sync_cluster_init"):  # from Triton 3.7 on
    from tests.kernels import clusters
KERNELS = [
    each for each in (asynchronous, handed_on, reported, patterns, clusters) if each is not None
]
ALL = [(kernels, name) for kernels in KERNELS for name in kernels.NAMES]


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("kernels", "name"), ALL, ids=[name for _, name in ALL])
def test_nothing_is_found_in_right_kernels(kernels, name) -> None:
    assert not checked(kernels, name)
    assert is_right(kernels, name, "late")


FAULTS = [
    (kernels, *each)
    for kernels in (*KERNELS, pipelines)
    for each in faults_of(kernels, kernels.NAMES)
]


@pytest.mark.thinned(2)
@pytest.mark.usefixtures("_no_tries")
@pytest.mark.sampled(12)
@pytest.mark.parametrize(("kernels", "name", "fault"), FAULTS)
def test_the_fault_is_found_on_its_line(kernels, name, fault, tmp_path) -> None:
    changed, expected = broken(kernels, name, fault, tmp_path)
    assert expected
    found = checked(changed, name)
    assert {(one.kind, one.line) for one in found} == expected, str(found)


@pytest.mark.usefixtures("_no_tries")
@pytest.mark.parametrize(
    ("before", "use", "count", "kind"),
    [
        *(
            ("nothing", use, 1, "invalid-barrier")
            for use in ("arrive", "expect", "wait", "invalidate")
        ),
        *(("invalidated", use, 1, "invalid-barrier") for use in ("arrive", "expect", "invalidate")),
        ("initialized", "init", 1, "invalid-barrier"),
        ("initialized", "arrive", 3, "extra-arrival"),
        ("initialized", "arrive twice", 2, "endless-wait"),
    ],
)
def test_a_barrier_that_is_misused(before, use, count, kind) -> None:
    launch: Any = handed_on.misused, (1,), torch.zeros(1), before, use, count
    (finding,) = kernellab.check(*launch, target="sm_90")
    assert finding.kind == kind
    is_wait = kind == "endless-wait" or use == "wait"
    assert f"mbarrier.{'wait' if is_wait else use}(" in source_line(finding.position)


def fixed(name: str, fault: str, folder: Path, of: Any = asynchronous) -> bool:
    """Whether the check shows a change for each finding of a fault; it makes the kernel right."""
    kernels, _expected = broken(of, name, fault, folder)
    findings = checked(kernels, name)
    if not all(one.verified for one in findings):
        assert not any(one.changes for one in findings)
        return False
    right = with_changes(kernels, findings[0].changes, folder / "right.py")
    assert not checked(right, name)
    assert is_right(right, name, "late")
    return True


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "case", ["tensor_epilogue-C", "copies-G", "tma_copies-A", "tma_copies-D", "sent-A"]
)
def test_a_wait_that_was_tried_makes_the_kernel_right(case, tmp_path) -> None:
    name, fault = case.split("-")
    assert fixed(name, fault, tmp_path, patterns if name == "tensor_epilogue" else asynchronous)


@pytest.mark.skipif(not triton_api.STORE_WAITS_FOR_WRITES, reason="from Triton 3.8 on")
def test_a_wait_for_what_a_tma_store_writes(tmp_path) -> None:
    kernels, _expected = broken(reported, "read_back", "A", tmp_path)
    (finding,) = checked(kernels, "read_back")
    assert [change.new.strip() for change in finding.changes] == [
        "tma.store_wait(0, read_only=False)"
    ]


@pytest.mark.slow
@pytest.mark.thinned(8)
@pytest.mark.parametrize(("name", "fault"), faults_of(asynchronous, asynchronous.NAMES))
def test_most_faults_have_a_change_that_was_tried(name, fault, tmp_path) -> None:
    assert fixed(name, fault, tmp_path) is (f"{name}-{fault}" not in UNFIXED)


SAID = [(asynchronous, case) for case in (
    "copies-C", "tma_copies-D", "tma_copies-G", "tma_copies-J", "products-D", "handed_over-A",
    "handed_over-D", "sent-A", "tensor_groups-E", "fresh_barriers-C", "fresh_barriers-D",
    "tma_copies-C",
)]  # fmt: skip
SAID += [(reported, "same_place-A"), (reported, "read_back-A")]
SAID += [(clusters, case) for case in (
    "multicast-F", "multicast-G", "tensor_pairs-A", "tensor_pairs-I", "tensor_sharing-B",
) if clusters and case.split("-")[0] in clusters.NAMES]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("_no_tries")
@pytest.mark.parametrize(("kernels", "case"), SAID, ids=[case for _, case in SAID])
def test_what_is_said(kernels, case, tmp_path, messages) -> None:
    name, fault = case.split("-")
    changed, _expected = broken(kernels, name, fault, tmp_path)
    *_, last = sorted(checked(changed, name), key=lambda one: one.kind != "endless-wait")
    assert f"{last.message}\n{last.advice}" == messages


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", pipelines.NAMES)
def test_a_pipeline_is_right_whenever_operations_complete(name) -> None:
    kernel, programs, arguments, out, right = pipelines.launched(name)
    for completion in ("early", "late", "shuffled"):
        out.zero_()
        with kernellab.interpreted(target=pipelines.target_of(name), completion=completion):
            kernel[(programs,)](*arguments)
        torch.testing.assert_close(out.float(), right, rtol=2e-3, atol=2e-2)
    assert not checked(pipelines, name)


@pytest.mark.usefixtures("_no_tries")
@pytest.mark.sampled(15)
@pytest.mark.parametrize(("name", "line"), waits_of(pipelines, pipelines.NAMES))
def test_each_wait_of_a_pipeline_is_needed(name, line, tmp_path) -> None:
    kinds = {one.kind for one in checked(without_wait(pipelines, line, tmp_path), name)}
    assert kinds & {"missing-wait", "extra-arrival", "endless-wait"}, kinds


COMPILED: list[tuple[str, str, int, dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    ("matmul_warp_specialized", "sm_100", 704, {}, (1, 2, 3, 4), (0,)),
    ("matmul_tma_specialized", "sm_100", 400, {}, (3, 4, 5, 6, 7, 8, 9), (2,)),
    ("matmul_tma_specialized", "sm_100", 0, {}, (0, 1), ()),
    ("matmul_tma", "sm_90", 400, {}, (2, 3, 4, 5, 6), (7,)),
    ("matmul_tma", "sm_90", 0, {}, (0, 1), ()),
    ("experts", "sm_90", 192, {"GATHERS": False, "SPECIALIZE": False}, (*range(3, 10), 11), (10,)),
    ("experts", "sm_90", 0, {"GATHERS": False, "SPECIALIZE": False}, (0, 1, 2), ()),
    ("experts", "sm_100", 192, {"GATHERS": True, "SPECIALIZE": False}, tuple(range(3, 12)), ()),
    ("experts", "sm_100", 0, {"GATHERS": True, "SPECIALIZE": False}, (0, 1, 2), ()),
    ("experts", "sm_100", 192, {"GATHERS": True, "SPECIALIZE": True},
     (1, 2, 3, *range(5, 12), *range(13, 18)), (0, 4, 12)),
]  # fmt: skip
"""Matmuls that the compiler pipelines, which of their waits are needed, by K, and which order
nothing: three for the phase before the first of a new barrier, two for matmuls that the loop's last
iteration has waited for, and two for what the wait before them covers, as one group of warps uses
what the other hands over in another order.
"""

COMPILED_WAIT = re.compile(
    r'^.*"(?:ttng\.(?:\w+_wait|wait_barrier)|ttg\.async_wait)".*$', re.MULTILINE
)


def compiled_launch(name: str, k: int, how: dict[str, Any]) -> tuple[Any, Any, dict[str, Any], Any]:
    """Kernel, arguments and keywords of a matmul, and what it should store; None if unknown."""
    if name == "experts":
        return pipelines.experts, *pipelines.launched_experts(k, **how)
    entry = next(each for each in ENTRIES if each.name == name)
    is_persistent = "PROGRAMS" in entry.constants
    sizes = (512, 256, 400) if is_persistent else (128, 128, 704)
    keywords = {**entry.constants, **({"PROGRAMS": 1} if is_persistent else {}), **entry.options}
    return (
        entry.kernel,
        (*launches.described(*sizes), *(sizes[:2] if is_persistent else ()), k),
        keywords,
        None,
    )


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.usefixtures("_no_tries")
@pytest.mark.skipif(not triton.__version__.startswith("3.7"), reason="which waits there are")
@pytest.mark.parametrize(("name", "target", "k", "how", "needed", "idle"), COMPILED)
def test_waits_of_the_compiler_are_needed(name, target, k, how, needed, idle, monkeypatch) -> None:
    for number in (None, *needed, *idle):

        def module(*key: Any, number: int | None = number) -> str:
            text = module_after(*key)
            if number is None:
                return text
            wait = [*COMPILED_WAIT.finditer(text)][number]
            instead = re.sub(r"(pendings|num) = \d+", r"\1 = 99", wait.group())
            instead = "" if instead == wait.group() else instead
            return text[: wait.start()] + instead + text[wait.end() :]

        monkeypatch.setattr(program, "module_after", module)
        kernel, arguments, keywords, right = compiled_launch(name, k, how)
        keywords |= {"target": target, "stage": "ttgir"}
        triton_api.check_globals(kernel).kept.clear()
        kinds = {one.kind for one in kernellab.check(kernel, (1,), *arguments, **keywords)}
        waits = {"missing-wait", "extra-arrival", "endless-wait"}
        assert kinds & waits if number in needed else not kinds
        for completion in (
            ("early", "late", "shuffled") if number is None and name == "experts" else ()
        ):
            kernellab.run(kernel, (1,), *arguments, **keywords, completion=completion)
            torch.testing.assert_close(arguments[4].base.float(), right, rtol=2e-3, atol=2e-2)
            arguments[4].base.zero_()
    triton_api.check_globals(kernel).kept.clear()


@pytest.mark.skipif(clusters is None, reason="from Triton 3.7 on")
@pytest.mark.usefixtures("_no_tries")
@pytest.mark.parametrize("fault", ["", *"DF"])
def test_clusters_whose_ctas_load_their_own_tiles(fault, tmp_path) -> None:
    kernels, expected = (
        broken(clusters, "multicast", fault, tmp_path) if fault else (clusters, set())
    )
    kernel, arguments, result = kernels.launched("multicast", splits=True)
    launch: Any = kernel, (1,), *arguments, kernels.TILES
    found = kernellab.check(*launch, num_ctas=2, target="sm_90")
    assert {(one.kind, one.line) for one in found} == (expected if fault == "D" else set()), str(
        found
    )
    if not fault:
        kernellab.run(*launch, num_ctas=2, target="sm_90", completion="late")
        assert torch.equal(arguments[-1], result)


@pytest.mark.sampled(2)
@pytest.mark.skipif(clusters is None, reason="from Triton 3.7 on")
@pytest.mark.parametrize("fault", ["F", "H"])
def test_a_barrier_of_the_cluster_that_was_tried(fault, tmp_path) -> None:
    kernels, _expected = broken(clusters, "multicast", fault, tmp_path)
    (finding,) = checked(kernels, "multicast")
    assert finding.verified
    assert [change.new.strip() for change in finding.changes] == ["gl.barrier(cluster=True)"]


@pytest.mark.skipif(not triton_api.CTAS_SHARE_BARRIERS, reason="from Triton 3.7 on")
@pytest.mark.skipif(triton_api.CTAS_LOAD_FROM_OTHERS, reason="up to Triton 3.7")
def test_triton_refuses_to_load_from_another_cta() -> None:
    kernel, (source, _, out), _right = clusters.launched("multicast")
    layout = clusters.launched("multicast", splits=True)[1][1]
    with pytest.raises(CompileError) as caught:
        kernellab.compile(kernel, source, layout, out, clusters.TILES, num_ctas=2, target="sm_90")
    assert "ttg.local_load" in str(caught.value)
    assert "load(LAYOUT)" in source_line(caught.value.position)


MANY = 100_000
BAD: list[tuple[Any, tuple[Any, ...], str, str, str]] = [
    (handed_on.misused, ("initialized", "arrive", 1), "sm_90", "endless-wait", "mbarrier.wait("),
    (asynchronous.never_waits, (MANY, "counted"), "sm_80", "missing-wait", "copy"),
    (asynchronous.never_waits_for_tma, (MANY, "load"), "sm_90", "missing-wait", "tma_load("),
    (asynchronous.never_waits_for_tma, (MANY, "store"), "sm_90", "missing-wait", "tma_store("),
    (asynchronous.never_waits_for_products, (MANY, "wgmma"), "sm_90", "missing-wait", "_mma("),
    (asynchronous.never_waits, (MANY, "direct"), "gfx950", "missing-wait", "_to_shared("),
    (asynchronous.never_waits, (MANY, "copy"), "sm_80", "missing-wait", "copy_to_shared("),
    (asynchronous.never_waits_for_products, (MANY, "tcgen05"), "sm_100", "missing-wait", "_mma("),
    (handed_on.misused, ("data", "wait", 1), "sm_90", "invalid-barrier", "mbarrier.wait("),
]


@pytest.mark.usefixtures("_no_tries")
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("kernel", "arguments", "target", "kind", "line"), BAD)
def test_bad_input(kernel, arguments, target, kind, line) -> None:
    is_tma = kernel is asynchronous.never_waits_for_tma
    x = described(torch.zeros(64, 64, dtype=torch.float16)) if is_tma else torch.zeros(512)
    for call in (partial(kernellab.run, completion="late"), kernellab.check):
        said: list[Any] = []
        try:
            found = call(kernel, (1,), x, *arguments, target=target)
            said += found if isinstance(found, Findings) else ()
        except KernelLabError as error:
            said.append(error.diagnostic)
        assert (kind, True) in {(one.kind, line in source_line(one.position)) for one in said}


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_products_of_shared_memory_that_holds_what_is_not_finite(number) -> None:
    launch, keywords = launch_of(asynchronous, "products")
    a, b = (each.base for each in launch[2:4])
    a[3, 5], b[5, 7] = number, 0.0
    found = kernellab.check(*launch, **keywords)
    assert not any(" failed: " in note for note in found.notes), found.notes
    lines = [(one.kind, "warpgroup_mma(" in source_line(one.position)) for one in found]
    assert lines == ([("nan", True)] if number == torch.inf else [])
