"""What this machine lacks while a kernel is compiled: one line that blames no kernel."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from triton import knobs
from triton.runtime.errors import PTXASError

import kernellab
from kernellab.compiler.machine_code import instructions
from kernellab.errors import CompileError, KernelLabError, MachineError
from kernellab.triton_api.diagnostics import machine_error
from kernellab.tuning import worker
from kernellab.viz import explorer_sides
from tests.kernels.tuned import double

TYPES = ("*fp32:16", "*fp32:16", "i32")


STEERED = pytest.mark.parametrize("steered", [{}, {"record": "stages"}, {"skip": "ttgir.coalesce"}])


def compiled(**options: Any) -> Any:
    """Compile for a target whose assembler is `knobs.nvidia.ptxas` in every version of Triton."""
    return kernellab.compile(double, *TYPES, BLOCK=64, target="sm_80", **options)


def without(monkeypatch: pytest.MonkeyPatch, *tools: str) -> None:
    """Make NVIDIA's tools those of a machine where they are not installed."""
    for tool in tools:
        monkeypatch.setattr(type(knobs.nvidia).__dict__[tool], "default_path", "/nowhere/" + tool)


def blames_no_kernel(error: KernelLabError) -> bool:
    return error.position is None and "double" not in str(error) and not str(error).count("\n") > 1


@STEERED
@pytest.mark.usefixtures("empty_cache")
def test_a_missing_assembler_is_this_machines_fault(monkeypatch, steered, raised) -> None:
    without(monkeypatch, "ptxas")
    caught = raised(MachineError, compiled, **steered)
    assert blames_no_kernel(caught)
    assert "TRITON_PTXAS_PATH" in caught.advice


def test_without_the_disassembler_everything_else_is_shown(monkeypatch, tmp_path, raised) -> None:
    without(monkeypatch, "nvdisasm", "cuobjdump")
    compilation = compiled(num_warps=8)
    side = explorer_sides.explore_compilation(compilation).sides[0]
    assert side.notice.startswith("No SASS: nvdisasm cannot run")
    still = compilation._repr_mimebundle_()
    assert "nvdisasm cannot run" in str(still)
    assert "sass" not in list(compilation.stages)
    compilation.explore().to_html(tmp_path / "page.html")
    compilation.save(tmp_path / "saved.kl")
    raised(MachineError, lambda: compilation.stages["sass"])
    raised(MachineError, lambda: compilation.instructions)
    monkeypatch.undo()
    assert "BRA" in compilation.stages["sass"].text
    assert "sass" in compilation.stages


def failing_program(folder: Path) -> str:
    """A program that answers no question but the one for its version."""
    program = folder / "fails"
    program.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo release 12.8, V12.8.93 && exit\n"
        "echo 'no license' >&2\nexit 3\n"
    )
    program.chmod(0o755)
    return str(program)


@STEERED
@pytest.mark.usefixtures("empty_cache")
def test_an_assembler_that_is_none_blames_no_kernel(monkeypatch, tmp_path, steered) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", failing_program(tmp_path))
    with pytest.raises(MachineError, match="no license") as refused:
        compiled(num_warps=1, **steered)
    caught = refused.value
    assert caught.position is None
    assert "TRITON_PTXAS_PATH" in caught.advice


@pytest.mark.parametrize("ends", ["exit 3", pytest.param("exec sleep 100", marks=pytest.mark.slow)])
def test_everything_else_is_shown_where_the_disassembler_fails(
    monkeypatch, tmp_path, raised, ends
) -> None:
    program = Path(failing_program(tmp_path))
    program.write_text(program.read_text().replace("exit 3", ends))
    monkeypatch.setenv("TRITON_NVDISASM_PATH", str(program))
    monkeypatch.setattr(instructions, "_TOOL_SECONDS", 0.3 if "sleep" in ends else 60.0)
    compilation = compiled(num_warps=2)
    compilation.explore().to_html(tmp_path / "page.html")
    compilation.save(tmp_path / "saved.kl")
    raised(MachineError, lambda: compilation.stages["sass"])


def test_a_cache_that_cannot_be_written_is_this_machines_fault(monkeypatch, raised) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "/proc/nothing")
    caught = raised(MachineError, compiled, record="stages")
    assert blames_no_kernel(caught)
    assert "TRITON_CACHE_DIR" in caught.advice


def test_no_room_for_temporary_files_is_this_machines_fault(monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nothing")
    with pytest.raises(MachineError, match="/proc/nothing") as refused:
        compiled(num_warps=2)
    caught = refused.value
    assert blames_no_kernel(caught)
    with pytest.raises(MachineError, match="/proc/nothing"):
        kernellab.accesses(double, (1,), torch.ones(64), torch.zeros(64), 64, BLOCK=64, num_warps=1)


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device", "/x"),
        MemoryError(),
        RuntimeError("LLVM ERROR: out of memory"),
        PTXASError("`ptxas` failed with error code -9\n"),
        PTXASError("ptxas fatal   : Could not open output file '/t'"),
        PTXASError("`ptxas` failed with error code -25\n"),
        OSError(24, "Too many open files"),
        RuntimeError("cannot open output file '/t': Too many open files"),
        RuntimeError("Could not create or locate cache dir"),
        RuntimeError("can't start new thread"),
        OSError(27, "File too large"),
    ],
)
def test_faults_of_disks_memory_and_limits_are_told_apart(error, messages) -> None:
    with pytest.raises(MachineError) as caught:
        raise machine_error(error, "The compiler cannot run") or error
    assert caught.value == messages
    assert caught.value.advice


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("PassManager::run failed"),
        PTXASError("`ptxas` failed with error code 255\nptxas error   : Entry function uses"),
        ValueError("shape"),
    ],
)
def test_the_compilers_own_refusals_stay_its_own(error) -> None:
    assert machine_error(error, "The compiler cannot run") is None


def test_a_sweep_does_not_hold_it_against_a_config(monkeypatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise MachineError("The compiler cannot run: No space left on device.")

    monkeypatch.setattr(worker, "compile_bound", refuse)
    monkeypatch.setattr(worker, "_job", lambda packed: type("Job", (), dict.fromkeys(
        ("kernel", "target"))))  # fmt: skip
    monkeypatch.setattr(worker, "unpack", lambda packed: type("Task", (), dict.fromkeys(
        ("specialization", "options", "tensors", "is_timed"))))  # fmt: skip
    dropped: Any = worker.compile_config(b"", b"").dropped
    assert dropped.reason == "lost"
    assert not issubclass(MachineError, CompileError)


HALVES = """#!/bin/sh
PTXAS "$@" || exit
while [ $# -gt 0 ]; do [ "$1" = -o ] && truncate -s SIZE "$2"; shift; done
"""
"""An assembler on a full disk: the end of its file is missing, and it says nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("size", [2000, 0, 40])
def test_half_a_binary_is_neither_used_nor_kept(monkeypatch, tmp_path, size, raised) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    program = tmp_path / "ptxas"
    program.write_text(HALVES.replace("PTXAS", knobs.nvidia.ptxas.path).replace("SIZE", str(size)))
    program.chmod(0o755)
    with monkeypatch.context() as full:
        full.setenv("TRITON_PTXAS_PATH", str(program))
        for steered in ({}, {"record": "stages"}):
            caught = raised(MachineError, compiled, num_warps=2, **steered)
            assert blames_no_kernel(caught)
    assert "BRA" in compiled(num_warps=2, record="stages").stages["sass"].text


@pytest.mark.parametrize("steered", [{}, {"record": "stages"}])
def test_a_compilation_that_fails_leaves_no_file(monkeypatch, tmp_path, steered) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_PTXAS_PATH", failing_program(tmp_path))
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with pytest.raises(MachineError):
        compiled(num_warps=8, **steered)
    assert not list(place.iterdir())


def test_a_program_that_cannot_be_started_is_told_by_its_variable(
    monkeypatch, tmp_path, raised
) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tmp_path))
    caught = raised(MachineError, compiled, num_warps=2, match="TRITON_PTXAS_PATH")
    assert blames_no_kernel(caught)


@pytest.mark.parametrize(
    ("patterns", "damaged"),
    [
        (["*.json"], lambda _: b""), (["*.json", "*.ttgir"], lambda _: b"\0\xff"),
        (["*.json"], lambda _: b"{}"), (["*.cubin"], lambda content: content[: len(content) // 2]),
        (["*.cubin"], lambda content: bytes(len(content))), (["__grp__*.json"], lambda _: b"[1]"),
        (["__grp__*.json"], lambda _: b'{"child_paths": [1]}'),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("empty_cache")
def test_a_damaged_entry_of_tritons_cache_is_as_good_as_none(tmp_path, patterns, damaged):
    whole = compiled(record="stages").stages
    for pattern in patterns:
        entries = list(tmp_path.rglob(pattern))
        assert entries
        for entry in entries:
            entry.write_bytes(damaged(entry.read_bytes()))
        again = compiled(record="stages").stages
        assert again["ptx"].text == whole["ptx"].text
        assert again["cubin"].content == whole["cubin"].content
