"""Profiles on this machine's GPU: what Proton costs through the lab and alone, and profiles of a
step of two kernels, of their samples, and of one launch by line.

`python -m benchmarks.profiling_on_gpu --out FOLDER` writes profiling_gpu.json (machine, times,
what each check found), profile_gpu_step.klprofile, profile_gpu_samples.hatchet (as Proton wrote it,
without the folders of files), profile_gpu_lines.klprofile. A part that fails is recorded with its
error, and the next goes on. `--small` takes small sizes and, without a GPU, the interpreter: to see
that everything works. Notebook 13 opens the recorded ones, in `notebooks/recorded/`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
import triton.profiler as proton

import kernellab
from benchmarks.fidelity_outputs import machine

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"


@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    """Softmax of each row."""
    row = tl.program_id(0)
    inside = tl.arange(0, BLOCK) < columns
    x = tl.load(x_ptr + row * columns + tl.arange(0, BLOCK), mask=inside, other=-float("inf"))
    powers = tl.exp(x - tl.max(x))
    tl.store(y_ptr + row * columns + tl.arange(0, BLOCK), powers / tl.sum(powers), mask=inside)


def work_of_matmul(_grid: Any, metadata: Any, args: dict[str, Any]) -> dict[str, Any]:
    """A launch's name and work, as Triton asks for it."""
    M, N, K = args["M"], args["N"], args["K"]
    return {
        "name": f"matmul_<M:{M}, num_warps:{metadata.num_warps}>",
        "flops16": 2.0 * M * N * K,
        "bytes": 2.0 * (M * K + K * N) + 4.0 * M * N,
    }


@triton.jit(launch_metadata=work_of_matmul)
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,  # noqa: ARG001 - M is for its work
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """c = a @ b, of fp16 into fp32."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_tile = a_ptr + rows[:, None] * K + inner[None, :]
    b_tile = b_ptr + inner[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_tile)
        b = tl.load(b_tile)
        acc = tl.dot(a, b, acc)
        a_tile += BK
        b_tile += BK * N
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


class Step:
    """Launches of both kernels."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.a = torch.randn(size, size, device=DEVICE, dtype=torch.float16)
        self.b = torch.randn(size, size, device=DEVICE, dtype=torch.float16)
        self.c = torch.empty(size, size, device=DEVICE)
        self.y = torch.empty_like(self.c)
        tile = 128 if HAS_GPU else 32
        self.config: dict[str, Any] = {"BM": tile, "BN": tile, "BK": min(64, tile), "num_warps": 8}
        self.grid = (size // tile, size // tile)
        self.matmul, self.softmax = matmul, softmax
        if not HAS_GPU:
            self.matmul, self.softmax = map(kernellab.TileKernel, (matmul, softmax))

    def product(self) -> None:
        """One launch of the matmul."""
        sizes = (self.size, self.size, self.size)
        self.matmul[self.grid](self.a, self.b, self.c, *sizes, **self.config)

    def normalized(self) -> None:
        """One launch of the softmax."""
        self.softmax[(self.size,)](
            self.c, self.y, self.size, BLOCK=triton.next_power_of_2(self.size)
        )


def synchronize() -> None:
    """Wait for what was launched."""
    if HAS_GPU:
        torch.cuda.synchronize()


# Times


def cost(step: Step, launches: int, rounds: int) -> dict[str, Any]:
    """Proton's session through the lab and alone, in turns: the launches in scopes, and all until
    the profile is there.
    """

    def body() -> None:
        for _ in range(launches // 2):
            with proton.scope("step"):
                step.product()
                step.normalized()
        synchronize()

    def alone() -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            session = proton.start(f"{folder}/p", hook="triton")
            began = time.perf_counter()
            body()
            took = time.perf_counter() - began
            proton.finalize(session)
            json.loads(Path(f"{folder}/p.hatchet").read_text())
            return took, time.perf_counter() - start

    def lab() -> tuple[float, float]:
        start = time.perf_counter()
        with kernellab.profile() as p:
            began = time.perf_counter()
            body()
            took = time.perf_counter() - began
        assert p.profile
        return took, time.perf_counter() - start

    body()
    ways: dict[str, Callable[[], tuple[float, float]]] = {"lab": lab}
    if HAS_GPU:
        ways["alone"] = alone
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(rounds):
        for name, way in ways.items():
            seen[name].append(way())
    plain = []
    for _ in range(rounds):
        began = time.perf_counter()
        body()
        plain.append(time.perf_counter() - began)
    found: dict[str, Any] = {
        "launches": launches,
        "rounds": rounds,
        "plain_s": statistics.median(plain),
    }
    for name, times in seen.items():
        found[f"{name}_launches_s"] = statistics.median(one for one, _ in times)
        found[f"{name}_whole_s"] = statistics.median(one for _, one in times)
    if HAS_GPU:
        for part in ("launches", "whole"):
            found[f"ratio_{part}"] = found[f"lab_{part}_s"] / found[f"alone_{part}_s"]
    return found


# Profiles


def of_a_step(step: Step, out: Path) -> dict[str, Any]:
    """Scopes, metrics, a pause, two sessions at once, frames, a hook."""
    with kernellab.profile(name="a step") as p:
        for loss in (0.5, 0.25):
            with p.scope("forward", loss=loss):
                step.product()
            with p.scope("normalize"):
                step.normalized()
        p.deactivate()
        step.product()
        p.activate()
        inner = kernellab.profile(
            context="python",
            hook=lambda _, metadata, args: {
                "name": f"softmax_<num_warps:{metadata.num_warps}>",
                "bytes": 8.0 * args["columns"] ** 2,
            },
        ).start()
        step.normalized()
        inner.stop()
        step.product()
    p.profile.save(out / "profile_gpu_step.klprofile")
    return {
        "tree": str(p.tree("time/ms,count")),
        "metrics": list(p.metrics),
        "rates": str(p.tree("tflop16/s") if "flops16" in p.metrics else ""),
        "util": str(p.tree("util")) if HAS_GPU else "",
        "inner": str(inner.tree()),
        "inner_metrics": list(inner.metrics),
        "notes": list(p.notes) + list(inner.notes),
        "kernels": [repr(one) for one in p.kernels],
        "compilation": repr(p.kernels[0].compilation),
    }


def of_samples(step: Step, out: Path) -> dict[str, Any]:
    """PC samples of both kernels: as Proton wrote them, and through the lab. Kernels are loaded in
    the session, for others have no samples: in a process of its own.
    """
    code = (
        "import sys, pathlib, shutil, torch, kernellab; sys.path.insert(0, '.');"
        "from benchmarks import profiling_on_gpu as g; from kernellab.profiling.profiles import "
        "session; step = g.Step(int(sys.argv[1])); out = pathlib.Path(sys.argv[2]);\n"
        "read = session.hatchet_in\n"
        "def kept(content, who):\n"
        "    (out / 'profile_gpu_samples.hatchet').write_bytes(content)\n"
        "    return read(content, who)\n"
        "session.hatchet_in = kept\n"
        "with kernellab.profile(mode='pcsampling', name='samples') as p:\n"
        "    for _ in range(20):\n"
        "        step.product(); step.normalized()\n"
        "print(p.lines.to_string()); print(p.tree('num_samples')); print(p.notes)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(step.size), str(out)],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    file = out / "profile_gpu_samples.hatchet"
    if file.exists():
        text = file.read_text().replace(f"{Path(__file__).parent}{os.sep}", "")
        text = text.replace(f"{Path(triton.__file__).parents[1]}{os.sep}", "")
        file.write_text(text)
    return {"rc": done.returncode, "out": done.stdout[-8000:], "err": done.stderr[-3000:]}


def of_a_trace(step: Step) -> dict[str, Any]:
    """Every launch with its time."""
    with kernellab.profile(data="trace") as p:
        step.product()
        step.normalized()
    return {"records": p.timeline().records.to_string(), "tree": str(p.tree())}


def of_lines(step: Step, out: Path) -> dict[str, Any]:
    """One launch, by line."""
    sizes = (step.size, step.size, step.size)
    found = kernellab.profile(matmul, step.grid, step.a, step.b, step.c, *sizes, **step.config)
    found.save(out / "profile_gpu_lines.klprofile")
    return {"lines": found.lines.to_string(), "card": str(found)[:6000]}


_FAULT = """
import torch, triton, triton.language as tl, kernellab
@triton.jit
def far(x_ptr):
    tl.store(x_ptr + (1 << 40) + tl.arange(0, 32), 1.0)
x = torch.zeros(32, device="cuda")
try:
    with kernellab.profile() as p:
        far[(1,)](x)
    print("NOTES", p.notes)
except Exception as error:
    print("ERROR", type(error).__name__, str(error)[:1500])
import triton.profiler.flags as flags
from triton.profiler.hooks import HookManager
print("LEFT", flags.flags.profiling_on, HookManager.active_hooks)
"""


def of_a_fault() -> dict[str, Any]:
    """A launch that faults while it is profiled, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "far.py"
        file.write_text(_FAULT)
        done = subprocess.run(
            [sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=60
        )
    return {"rc": done.returncode, "out": done.stdout[-3000:], "err": done.stderr[-2000:]}


_SCRIPT = """
import sys
sys.path.insert(0, ".")
from benchmarks.profiling_on_gpu import HAS_GPU, Step
step = Step(2048 if HAS_GPU else 64)
for _ in range(5):
    step.product()
    step.normalized()
"""


def of_a_script() -> dict[str, Any]:
    """`kernellab profile` of a script, and `proton-viewer`'s numbers of what it saved."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "step.py"
        script.write_text(_SCRIPT)
        command = [sys.executable, "-m", "kernellab", "profile", "-o", f"{folder}/p.hatchet"]
        done = subprocess.run(
            [*command, str(script)], capture_output=True, text=True, check=False, timeout=60
        )
        viewer = [sys.executable, "-m", "triton.profiler.viewer", "-m", "time/ms,tflop16/s"]
        seen = subprocess.run(
            [*viewer, f"{folder}/p.hatchet"], capture_output=True, text=True, check=False
        )
    return {
        "rc": done.returncode,
        "out": done.stdout[-3000:],
        "err": done.stderr[-1500:],
        "viewer": seen.stdout[-1500:] + seen.stderr[-800:],
    }


def main() -> None:
    """Record everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", metavar="PART", help="machine, cost, step, ...")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    small = options.small
    step = Step(64 if not HAS_GPU else 512 if small else 4096)
    quick = Step(64 if not HAS_GPU else 256)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "machine": machine,
        "cost": lambda: cost(quick, 20 if small else 4000, 2 if small else 9),
        "step": lambda: of_a_step(step, options.out),
        "trace": lambda: of_a_trace(step),
        "lines": lambda: of_lines(step, options.out),
        "samples": lambda: of_samples(step, options.out),
        "script": of_a_script,
        "fault": of_a_fault,
    }
    found: dict[str, Any] = {}
    for name, part in parts.items():
        if options.only and name not in options.only:
            continue
        began = time.perf_counter()
        try:
            found[name] = part()
        except BaseException:
            found[name] = {"error": traceback.format_exc()[-4000:]}
        found[name]["seconds"] = round(time.perf_counter() - began, 2)
        print(name, json.dumps(found[name])[:1500], flush=True)
        (options.out / "profiling_gpu.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
