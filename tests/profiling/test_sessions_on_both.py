"""A session on a machine with a GPU: launches on it and on the interpreter."""

import importlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel

import kernellab
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import ProfileError
from kernellab.profiling.profiles import session
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import COUNT, PROTON, TIME, GrowingScope, Machine
from kernellab.triton_api import proton
from tests.corpus.elementwise import vector_add
from tests.kernels.profiled import named


class FakeGpuSession:
    """Proton's part: kernels are those that the test says."""

    interpreted: Profile | None = None
    kernels: tuple[str, ...] = ()
    scopes: list[str]
    fails = False

    def __init__(self, *_: Any) -> None:
        type(self).scopes = []

    def activate(self) -> None:
        """Nothing to begin."""

    def deactivate(self) -> None:
        """Nothing to pause."""

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        self.scopes.append(name)

    def leave(self) -> None:
        """Nothing to leave."""

    def finish(self, name: str) -> Profile:
        if self.fails:
            raise ProfileError("Proton wrote no profile of this session.")
        root = GrowingScope("ROOT", "root")
        for kernel in self.kernels:
            root.child(kernel, "kernel").add({TIME: 1000, COUNT: 1})
        return Profile(PROTON, root.grown(), Machine("sm_90", "a GPU", {}), name=name)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> type[FakeGpuSession]:
    """A machine with a GPU, as sessions see it."""

    class Session(FakeGpuSession):
        """This test's own."""

    monkeypatch.setattr(session, "local_target", lambda: DEFAULT_TARGET)
    monkeypatch.setattr(session, "GpuSession", Session)
    return Session


def launch_on_cpu() -> None:
    kernellab.run(named, (4,), torch.zeros(64), 64, BLOCK=16)


def test_launches_on_the_cpu_alone_are_the_profile(gpu: type[FakeGpuSession]) -> None:
    with kernellab.profile(name="mine") as p:
        launch_on_cpu()
    assert (p.measured_by, p.name, p.kernels[0].launches) == ("interpreter", "mine", 1)
    assert p.interpreted is None


def test_launches_on_both_are_two_profiles(gpu: type[FakeGpuSession]) -> None:
    gpu.kernels = ("matmul",)
    with kernellab.profile() as p:
        with p.scope("step"):
            launch_on_cpu()
        launch_on_cpu()
    assert p.measured_by == PROTON
    assert "matmul" in p.tree()
    assert gpu.scopes == ["step"]
    assert any("Launches with CPU tensors, 2 in all" in note for note in p.notes)
    assert p.interpreted is not None
    assert p.interpreted.kernels[0].launches == 2


def test_launches_on_the_gpu_alone_are_protons(gpu: type[FakeGpuSession]) -> None:
    gpu.kernels = ("matmul",)
    with kernellab.profile() as p:
        pass
    assert (p.measured_by, p.interpreted) == (PROTON, None)
    assert not p.notes


def test_what_proton_cannot_write_does_not_lose_the_others(gpu, messages) -> None:
    gpu.fails = True
    with kernellab.profile() as p:
        launch_on_cpu()
    assert p.measured_by == "interpreter"
    with pytest.raises(ProfileError) as refused, kernellab.profile():
        pass
    assert refused.value == messages


def test_scopes_reach_proton_while_it_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    import triton.profiler

    calls: list[Any] = []
    libproton = SimpleNamespace(
        record_scope=lambda: 41,
        enter_scope=lambda number, name: calls.append(("enter", number, name)),
        exit_scope=lambda number, name: calls.append(("exit", number, name)),
        add_metrics=lambda number, metrics, *_: calls.append(("metrics", number, metrics)),
    )
    module = importlib.import_module("triton.profiler.scope")
    monkeypatch.setattr(module, "libproton", libproton)
    monkeypatch.setattr(module, "flags", SimpleNamespace(profiling_on=True, command_line=False))
    heard: list[Any] = []
    listener = SimpleNamespace(
        enter=lambda name, metrics: heard.append(name),
        measured=heard.append,
        leave=lambda: heard.append("leave"),
    )
    with (
        proton.scopes_reported(listener),
        triton.profiler.scope("step", {"loss": torch.tensor([1.0, 2.0])}),
    ):
        pass
    assert heard == ["step", {"loss": 3.0}, "leave"]
    assert calls == [("enter", 41, "step"), ("metrics", 41, {"loss": 3.0}), ("exit", 41, "step")]
    calls.clear()
    module.flags.profiling_on = False
    with proton.scopes_reported(listener), triton.profiler.scope("another"):
        pass
    assert not calls


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_launches_on_both_with_a_gpu() -> None:
    with kernellab.profile() as p:
        launch_on_cpu()
    assert p.measured_by == "interpreter"
    with kernellab.profile() as p:
        with p.scope("step"):
            kernellab.run(named, (4,), torch.zeros(64, device="cuda"), 64, BLOCK=16)
        launch_on_cpu()
    assert p.measured_by == PROTON
    assert "step" in p.tree()
    assert p.interpreted is not None
    assert p.interpreted.kernels[0].launches == 1


def test_a_launch_on_a_gpu_keeps_its_grid_and_its_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that `kernellab.diagnose` can estimate the kernels of the session's profile."""
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    source = ASTSource(vector_add, {**types, "BLOCK": "constexpr"}, {(4,): 1024})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    monkeypatch.setattr(CompiledKernel, "launch_metadata", lambda *_: None)  # asks for a driver
    on_gpu = session.GpuSession(session.ProtonOptions(), None)
    with proton.launches_heard(proton.LaunchListener(on_gpu._saw)):
        for n in (98_432, 5):
            compiled.launch_metadata((97,), 0, *[torch.empty(0)] * 3, n, 1024)
    ((_, launches, grid, integers),) = on_gpu._launches.values()
    kernel = session.kernel_of(compiled, launches, grid, integers)
    assert (kernel.launches, kernel.grid) == (2, (97, 1, 1))
    assert kernel.integers["n"] == 98_432
