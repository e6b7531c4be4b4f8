"""Run tests as on other processors: python -m tools.capabilities [CAPABILITY ...] [-- PYTEST ...]

torch, NumPy, their BLAS and the C library choose code by the processor's vector instructions, and
the last digits of floats differ between them. Environment variables restrict that choice: "found"
leaves everything as it is, "avx2" hides AVX-512, and "none" hides all that can be hidden. The
default is all three, with the tests that compare floats with torch or with saved text.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy

ROOT = Path(__file__).resolve().parent.parent

CAPABILITIES = {
    "found": {},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "none": {
        "ATEN_CPU_CAPABILITY": "default",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
}
"""Capability -> what torch and the libraries below it and NumPy are told. Libraries ignore the
names of another architecture; NumPy's list is made by `environment`."""


DEFAULT = (
    "-q",
    "-n",
    str(min(4, os.cpu_count() or 2)),
    "--dist",
    "loadfile",
    "-m",
    "floats and not slow",
)
"""pytest's arguments where none are given."""


def environment(capability: str) -> dict[str, str]:
    """The environment variables of a capability.

    NumPy gets the features that this build can use on this machine: it warns about others.
    """
    variables = dict(CAPABILITIES[capability])
    found = _numpy_features()
    hidden = {
        "found": [],
        "avx2": [name for name in found if name.startswith("AVX512") or name == "X86_V4"],
        "none": found,
    }[capability]
    if hidden:
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(hidden)
    return variables


def vector_instructions() -> str:
    """What torch and NumPy use in this process: "torch AVX2, NumPy X86_V3"."""
    import torch

    features = ", ".join(_numpy_features()) or "its baseline"
    return f"torch {torch.backends.cpu.get_cpu_capability()}, NumPy {features}"


def _numpy_features() -> list[str]:
    """The features beyond its baseline that NumPy uses: not those that are switched off."""
    configuration: Any = numpy.show_config(mode="dicts")
    return list(configuration["SIMD Extensions"].get("found", []))


def main(words: list[str]) -> int:
    """Run the tests under each capability; return 1 where one fails."""
    at = words.index("--") if "--" in words else len(words)
    capabilities, arguments = words[:at] or list(CAPABILITIES), words[at + 1 :]
    unknown = [name for name in capabilities if name not in CAPABILITIES]
    if unknown:
        raise SystemExit(
            f"CAPABILITY must be one of {', '.join(CAPABILITIES)}, got {unknown[0]!r}."
        )
    outcomes = {}
    for capability in capabilities:
        variables = environment(capability)
        settings = " ".join(f"{name}={value!r}" for name, value in variables.items())
        print(f"\n=== {capability} {settings}", flush=True)
        started = time.monotonic()
        command = [sys.executable, "-m", "pytest", *(arguments or DEFAULT)]
        status = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}).returncode
        outcomes[capability] = status, time.monotonic() - started
    for capability, (status, seconds) in outcomes.items():
        print(f"{capability}: {'passed' if status == 0 else 'FAILED'} ({seconds:.0f} s)")
    return int(any(status for status, _ in outcomes.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
