"""What `kernellab doctor` says: what is installed, fits together, works, or is missing."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import textwrap
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from kernellab.common.saved_files import kernellab_version
from kernellab.common.system import usable_cores
from kernellab.errors import Diagnostic, Severity

State = Literal["ok", "note", "missing"]


@dataclass(frozen=True)
class DoctorLine(Diagnostic):
    """One line of the doctor's: its kind is the subject. `DoctorLine.of` makes one.

    Attributes:
        state: "note" is worth knowing; "missing" is something that KernelLab needs: an error.
    """

    state: State = "ok"

    @classmethod
    def of(cls, subject: str, state: State, words: str, advice: str = "") -> DoctorLine:
        """A line about a subject, with advice."""
        severity: Severity = "error" if state == "missing" else "note"
        return cls(severity, subject, words, advice=advice, state=state)


TRITON_FOR_TORCH = {"2.11": "3.6", "2.12": "3.7", "2.13": "3.7", "2.14": "3.8", "2.15": "3.9"}
"""torch -> the Triton that its CUDA build requires; each pair was installed."""

NVIDIA_TOOLS = {
    "ptxas": "assembles PTX for GPUs up to sm_90",
    "ptxas-blackwell": "assembles PTX for sm_100 and later",
    "nvdisasm": "disassembles SASS",
    "cuobjdump": "reads registers, spills and stack from a binary",
}


def examine() -> list[DoctorLine]:
    """Look at everything; each check stands for itself, so that one failure hides no other."""
    findings: list[DoctorLine] = []
    for subject, check in CHECKS.items():
        try:
            findings += check()
        except Exception as error:  # a broken package raises anything when it is imported
            findings.append(DoctorLine.of(subject, "missing", f"{type(error).__name__}: {error}"))
    return findings


def healthy(findings: Iterable[DoctorLine]) -> bool:
    """Whether nothing that KernelLab needs is missing."""
    return all(finding.state != "missing" for finding in findings)


def report_text(findings: Sequence[DoctorLine]) -> str:
    """The findings for a terminal, and a closing line."""
    width = max(len(finding.kind) for finding in findings)
    lines = [f"KernelLab {kernellab_version()}"]
    for finding in findings:
        first, *rest = finding.what.splitlines() or [""]
        lines.append(f"  {finding.state:<8}{finding.kind:<{width}}  {first}")
        indent = " " * (width + 12)
        lines += textwrap.wrap(" ".join(rest), 96, initial_indent=indent, subsequent_indent=indent)
        lines += textwrap.wrap(
            finding.advice, 96, initial_indent=indent + "-> ", subsequent_indent=indent + "   "
        )
    missing = [finding.kind for finding in findings if finding.state == "missing"]
    lines.append("")
    lines.append(f"Needs attention: {', '.join(missing)}." if missing else "All is well.")
    return "\n".join(lines)


def _python() -> Iterator[DoctorLine]:
    cores = usable_cores()
    words = f"{platform.python_version()}, {platform.system()} {platform.machine()}, {cores} cores"
    yield DoctorLine.of("Python", "ok", words)


def _packages() -> Iterator[DoctorLine]:
    try:
        declared = requires("kernellab") or []
    except PackageNotFoundError:
        folder = Path(__file__).parents[2]
        yield DoctorLine.of("KernelLab", "note", f"not installed: it is taken from {folder}")
        file, declared = folder / "pyproject.toml", []
        if file.exists():  # the package may lie alone in a folder
            declared = tomllib.loads(file.read_text())["project"]["dependencies"]
    for text in declared:
        requirement = Requirement(text)
        # Extras are optional: they are looked at where they are used.
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield _package(requirement)


def _package(requirement: Requirement) -> DoctorLine:
    name, specifier = requirement.name, requirement.specifier
    command = f'pip install "{name}{specifier}"'
    try:
        installed = version(name)
    except PackageNotFoundError:
        return DoctorLine.of(name, "missing", "not installed", f"Install it: {command}")
    if specifier.contains(installed, prereleases=True):
        return DoctorLine.of(name, "ok", installed)
    words = f"{installed}, and KernelLab {kernellab_version()} needs {specifier}"
    return DoctorLine.of(name, "missing", words, f"Install a version that fits: {command}")


def pairing(torch: str, triton: str) -> DoctorLine:
    """Whether this torch and this Triton belong together, by their version strings."""
    subject = "torch and Triton"
    wanted = TRITON_FOR_TORCH.get(_major_minor(torch))
    if wanted is None:
        return DoctorLine.of(subject, "note", f"torch {torch} is not among the versions known here")
    if _major_minor(triton) == wanted:
        words = f"torch {_major_minor(torch)} goes with Triton {wanted}"
        return DoctorLine.of(subject, "ok", words)
    return DoctorLine.of(
        subject,
        "note",
        f"torch {torch} was made with Triton {wanted}, and {triton} is installed",
        f'torch.compile may fail. Take the one that fits: pip install "triton=={wanted}.*"',
    )


def compile_support(torch: str) -> DoctorLine:
    """Whether this torch's compiler is one that `kernellab.graph` knows, by its version string."""
    subject, known = "torch.compile", list(TRITON_FOR_TORCH)
    words = f"kernellab.graph is known to work with torch {known[0]} to {known[-1]}"
    if _major_minor(torch) in known:
        return DoctorLine.of(subject, "ok", f"{words}; this is {torch}")
    return DoctorLine.of(
        subject,
        "note",
        f"{words}, and this is {torch}: levels may be missing from its reports, or say why",
        f"Take one of those for kernellab.graph and %%tilegraph: torch=={known[-1]}.*",
    )


def _major_minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _gpu() -> Iterator[DoctorLine]:
    import torch

    build = f"ROCm {torch.version.hip}" if torch.version.hip else "CPU"
    if torch.version.cuda:
        build = f"CUDA {torch.version.cuda}"
    yield DoctorLine.of("torch's build", "ok", build)
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(number)
            memory = properties.total_memory / 2**30
            yield DoctorLine.of("GPU", "ok", f"{properties.name}, {memory:.0f} GiB")
        return
    unused = ", ".join(_nvidia_gpus())
    if not unused:
        yield DoctorLine.of("GPU", "ok", "none: kernels run on the CPU, and compile as for sm_90")
    elif os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1"):
        words = f"{unused}: here, and CUDA_VISIBLE_DEVICES hides it"
        yield DoctorLine.of("GPU", "note", words, "Unset CUDA_VISIBLE_DEVICES to use it.")
    else:
        words = f"{unused}: here, but this torch cannot use it"
        advice = "Take torch's CUDA build: make clean, then make demo TORCH=cuda."
        yield DoctorLine.of("GPU", "note", words, advice)


def _nvidia_gpus() -> list[str]:
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [f"{pynvml.nvmlDeviceGetName(handle)} (driver {driver})" for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def _nvidia_tools() -> Iterator[DoctorLine]:
    from kernellab.triton_api import nvidia_tool

    for name, job in NVIDIA_TOOLS.items():
        try:
            path = nvidia_tool(name.replace("-", "_"))
            printed = subprocess.run(
                [path, "--version"], capture_output=True, text=True, check=True, timeout=30
            )
        except (OSError, RuntimeError, AttributeError, subprocess.SubprocessError) as error:
            advice = "Triton's wheel has it: reinstall triton from a wheel."
            yield DoctorLine.of(name, "missing", f"it {job}, and cannot be run: {error}", advice)
            continue
        match = re.search(r"release [\d.]+, V([\d.]+)", printed.stdout)
        yield DoctorLine.of(name, "ok", f"{match[1] if match else 'of unknown version'}, {job}")


def _compiles() -> Iterator[DoctorLine]:
    from kernellab.cli.demo.kernels import vector_add
    from kernellab.compiler.binding import bind
    from kernellab.compiler.pipeline import compile_bound
    from kernellab.compiler.targets import DEFAULT_TARGET

    types = ["*fp32", "*fp32", "*fp32", "i32"]
    started = time.perf_counter()
    call = bind(vector_add, types, {"BLOCK": 128}, DEFAULT_TARGET)
    sass = compile_bound(vector_add, call, DEFAULT_TARGET).stages["sass"]
    took = time.perf_counter() - started
    lines = sass.text.count("\n")
    words = f"a kernel became {lines} lines of SASS for {DEFAULT_TARGET} in {took:.2f} s"
    yield DoctorLine.of("compiler", "ok", words)


def _runs() -> Iterator[DoctorLine]:
    """Run a small kernel on the CPU and check what it wrote."""
    import torch

    from kernellab.cli.demo.kernels import vector_add
    from kernellab.launch.tile_kernel import run

    x, y, total = torch.arange(300.0), torch.ones(300), torch.zeros(300)
    started = time.perf_counter()
    run(vector_add, (3,), x, y, total, 300, BLOCK=128)
    took = time.perf_counter() - started
    if torch.equal(total, x + y):
        words = f"a kernel ran on the CPU, checked, in {took:.2f} s"
        yield DoctorLine.of("interpreter", "ok", words)
    else:
        yield DoctorLine.of("interpreter", "missing", "a vector addition gave a wrong result")


CHECKS: dict[str, Callable[[], Iterable[DoctorLine]]] = {
    "Python": _python,
    "packages": _packages,
    "torch and Triton": lambda: [pairing(version("torch"), version("triton"))],
    "torch.compile": lambda: [compile_support(version("torch"))],
    "GPU": _gpu,
    "NVIDIA's tools": _nvidia_tools,
    "compiler": _compiles,
    "interpreter": _runs,
}
"""The checks, in the order in which they are shown."""
