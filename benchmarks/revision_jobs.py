"""The jobs of `benchmarks.revisions`, done by whatever KernelLab this process imports.

Run as a script, so that it stands outside the package that it measures: `kernellab` comes from
PYTHONPATH, the kernels from this checkout. Jobs use public names alone, which old revisions have.
A request is a job's name; the answer is (CPU seconds of each call, a digest of the output).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton

import kernellab

torch.set_num_threads(1)

HERE = Path(__file__).resolve().parent


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"measured_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


OURS = _module(HERE / "kernels.py")
DEMO = _module(HERE.parent / "kernellab" / "cli" / "demo" / "kernels.py")

Call = Callable[[], Any]
"""Does the job once; its output is compared between the two sides."""


def _launch(kernel: Any, grid: tuple[int, ...], out: torch.Tensor, *args: Any, **more: Any) -> Call:
    def call() -> Any:
        kernellab.run(kernel, grid, *args, **more)
        return out

    return call


def _vector_add(n: int, block: int = 1024) -> tuple[Any, tuple[int], list[Any], dict[str, Any]]:
    x, y = (torch.rand(n, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
    grid = (triton.cdiv(n, block),)
    return DEMO.vector_add, grid, [x, y, torch.zeros(n), n], {"BLOCK": block}


def _matmul(size: int) -> tuple[Any, tuple[int], list[Any], dict[str, Any]]:
    random = torch.Generator().manual_seed(3)
    a, b = (torch.randn(size, size, generator=random).half() for _ in range(2))
    c = torch.zeros(size, size, dtype=torch.float16)
    constants = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "PRECISION": "tf32"}
    grid = (triton.cdiv(size, 64) ** 2,)
    return DEMO.matmul, grid, [a, b, c, size, size, size, size, 1, size, 1, size, 1], constants


def run_vector_add() -> Call:
    """Interpreter: 1M elements, many programs a batch."""
    kernel, grid, args, constants = _vector_add(1 << 20)
    return _launch(kernel, grid, args[2], *args, **constants)


def run_many_programs() -> Call:
    """Large launches: 65,536 programs of little work each."""
    kernel, grid, args, constants = _vector_add(1 << 22, 64)
    return _launch(kernel, grid, args[2], *args, **constants)


def run_softmax() -> Call:
    """Interpreter: reductions along rows."""
    x = torch.randn(1823, 781, generator=torch.Generator().manual_seed(4))
    out = torch.zeros_like(x)
    return _launch(DEMO.softmax, (1823,), out, x, out, 781, 781, BLOCK=1024)


def run_matmul() -> Call:
    """Interpreter: a loop of products, fp16."""
    kernel, grid, args, constants = _matmul(512)
    return _launch(kernel, grid, args[2], *args, **constants)


def run_histogram() -> Call:
    """Interpreter: atomics."""
    values = torch.randint(0, 256, (1 << 18,), generator=torch.Generator().manual_seed(5))
    values, counts = values.int(), torch.zeros(256, dtype=torch.int32)

    def call() -> Any:
        counts.zero_()
        kernellab.run(OURS.atomic_histogram, (256,), values, counts, values.numel(), BLOCK=1024)
        return counts

    return call


def warm_launch() -> Call:
    """Launch cost: 200 launches of a known kernel with one program."""
    kernel, _, args, constants = _vector_add(1024)
    tile_kernel = kernellab.TileKernel(kernel.fn)

    def call() -> Any:
        for _ in range(200):
            tile_kernel[(1,)](*args, **constants)
        return args[2]

    return call


def warm_run() -> Call:
    """Launch cost: 200 calls of `kernellab.run` on a known kernel."""
    kernel, _, args, constants = _vector_add(1024)

    def call() -> Any:
        for _ in range(200):
            kernellab.run(kernel, (1,), *args, **constants)
        return args[2]

    return call


def first_launch() -> Call:
    """Launch cost: a kernel that is new to the process."""
    kernel, grid, args, constants = _matmul(64)

    def call() -> Any:
        kernellab.run(triton.jit(kernel.fn), grid, *args, **constants)
        return args[2]

    return call


_TYPES = ["*fp16:16"] * 3 + ["i32:16"] * 3 + ["i32:16", "i32"] * 3
_CONSTANTS: dict[str, Any] = {
    "BLOCK_M": 64,
    "BLOCK_N": 64,
    "BLOCK_K": 32,
    "GROUP_M": 8,
    "PRECISION": "tf32",
}


def _compiled(record: str) -> Any:
    kernel = triton.jit(DEMO.matmul.fn)
    return kernellab.compile(kernel, *_TYPES, target="sm_90", record=record, **_CONSTANTS)


def compile_stages() -> Call:
    """Compile overhead: the stages alone (Triton's cache is warm after the first call)."""
    return lambda: _compiled("stages").stages["ptx"].text


def compile_passes() -> Call:
    """Recording: every pass of a matmul's pipeline."""
    return lambda: [run.changed for run in _compiled("passes").passes]


def read_ir() -> Call:
    """Reading IR: the finished TTGIR into xDSL."""
    compilation = _compiled("passes")
    return lambda: sum(1 for _ in _fresh(compilation).module("ttgir").walk())


def layouts() -> Call:
    """Layouts of every tile of the finished TTGIR."""
    compilation = _compiled("passes")
    return lambda: [str(tile.name) for tile in _fresh(compilation).layouts()]


def _fresh(compilation: Any) -> Any:
    """The same compilation, with nothing answered yet: saved and loaded, which is not timed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.kernellab"
        compilation.save(path)
        return kernellab.load(path)


def trace() -> Call:
    """Tracing: one program of a matmul, every step."""
    kernel, grid, args, constants = _matmul(128)

    def call() -> Any:
        return len(kernellab.trace(kernel, grid, *args, programs=0, **constants).steps)

    return call


def check() -> Call:
    """Checking: vector add with every detector on."""
    kernel, grid, args, constants = _vector_add(1 << 16)
    return lambda: str(kernellab.check(kernel, grid, *args, **constants).findings)


def accesses() -> Call:
    """Counting accesses of a matmul."""
    kernel, grid, args, constants = _matmul(128)
    return lambda: str(kernellab.accesses(kernel, grid, *args, target="sm_90", **constants).table())


JOBS: dict[str, tuple[Callable[[], Call], int]] = {
    "interpreter: vector add, 1M": (run_vector_add, 30),
    "interpreter: softmax, 1823 x 781": (run_softmax, 20),
    "interpreter: matmul, 512^3": (run_matmul, 10),
    "interpreter: histogram, 256K": (run_histogram, 20),
    "large launches: 65,536 programs": (run_many_programs, 5),
    "launch cost: 200 warm launches, TileKernel": (warm_launch, 5),
    "launch cost: 200 warm calls of run": (warm_run, 5),
    "launch cost: first launch of a matmul": (first_launch, 3),
    "compile overhead: stages": (compile_stages, 3),
    "recording: every pass": (compile_passes, 2),
    "reading IR: save, load, TTGIR into xDSL": (read_ir, 2),
    "layouts: save, load, every tile": (layouts, 2),
    "tracing: one program": (trace, 2),
    "checking: vector add": (check, 2),
    "accesses: matmul": (accesses, 1),
}
"""Job -> what prepares it, and how many calls make one turn."""


def main() -> None:
    """Answer requests on standard input until there are no more; --list says which there are."""
    if sys.argv[1:] == ["--list"]:
        print(*JOBS, sep="\n")
        return
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    calls: dict[str, Call] = {}
    while True:
        try:
            name = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        prepare, times = JOBS[name]
        if name not in calls:
            calls[name] = prepare()
            calls[name]()
        seconds, output = [], None
        for _ in range(times):
            started = time.process_time()
            output = calls[name]()
            seconds.append(time.process_time() - started)
        if isinstance(output, torch.Tensor):
            output = output.numpy().tobytes()
        digest = hashlib.sha256(output if isinstance(output, bytes) else repr(output).encode())
        pickle.dump((seconds, digest.hexdigest()), answers)
        answers.flush()


if __name__ == "__main__":
    main()
