"""Profiles that `benchmarks.profile_on_gpu` recorded on an H200, with their compilations."""

import functools
import json
from typing import Any

import kernellab
from kernellab.compiler.compilations import Compilation
from kernellab.profiling.profiles.nsight import SampledCode
from tests.support.source_files import ROOT

DATA = ROOT / "benchmarks/data"
NAMES = ("matmul", "softmax")


@functools.cache
def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "profile_h200.json").read_text())
    return found


@functools.cache
def compilation(name: str) -> Compilation:
    found: Compilation = kernellab.load(DATA / f"profile_h200_{name}.kernellab")
    return found


@functools.cache
def profile(name: str) -> SampledCode:
    gpu = facts()["machine"]["gpu"]
    return kernellab.read_ncu(DATA / f"profile_h200_{name}.csv", gpu=gpu)
