"""flash-sinkhorn: optimal transport; the tests that it ships, which ask for CUDA."""

from __future__ import annotations

import ast
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.foreign.samples import NotRunnable, Pair, Run, Samples

SAMPLES = Samples()
pytest = importlib.import_module("pytest")  # its tests are written for it
FILES = (
    "apply_plan_flashstyle",
    "autograd_semantics",
    "c_transform",
    "geomloss_sinkhorn_triton",
    "geomloss_vs_triton",
    "half_cost",
    "hvp_parity",
    "hvp_sqeuclid",
    "identities",
    "multiscale_kernels",
    "ott_vs_triton",
    "samples_loss_api",
    "sinkhorn_triton",
)
"""Those with small clouds of points: the others take minutes for a test."""
FOLDER = Path(*importlib.import_module("flash_sinkhorn").__path__) / "testing"


def tests_of(file: Path) -> Iterator[str]:
    """The names of its test functions and methods, as pytest takes them."""
    for outer in ast.parse(file.read_text()).body:
        for inner in outer.body if isinstance(outer, ast.ClassDef) else [outer]:
            if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test"):
                yield inner.name if inner is outer else f"{outer.name}::{inner.name}"  # type: ignore[attr-defined]


class Reports:
    """A plugin of pytest's that keeps what it reports."""

    def __init__(self) -> None:
        self.passed = 0
        self.others: list[Any] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.passed:
            self.others.append(report)
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report: Any) -> None:
        if not report.passed:
            self.others.append(report)


def passing(test: str) -> Run:
    def run() -> Iterator[Pair]:
        reports = Reports()
        pytest.main(
            [test, "-q", "-c", os.devnull, "--rootdir", str(FOLDER), "-p", "no:cacheprovider",
             "-p", "no:xdist", "-p", "no:nbval", "--tb=short", "--capture=fd"],
            plugins=[reports],
        )  # fmt: skip
        failed = [report for report in reports.others if report.failed]
        if failed:
            raise AssertionError(f"{failed[0].nodeid.split('::')[-1]}: {failed[0].longreprtext}")
        if not reports.passed:
            raise NotRunnable("; ".join({report.longreprtext for report in reports.others}))
        yield Pair("tests that pass", reports.passed, reports.passed)

    return run


for stem in FILES:
    file = FOLDER / f"test_{stem}.py"
    for name in tests_of(file):
        SAMPLES[f"{stem}::{name}"] = passing(f"{file}::{name}")
