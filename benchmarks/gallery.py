"""The gallery's kernels beside torch's on this machine's GPU.

`python -m benchmarks.gallery FILE.json` measures vector add, softmax, matrix product and attention,
forward and backward, and writes FILE.json again after each part, so that what was measured before
an end is there. For each problem every config of a short list is checked against torch and timed;
the best ones and torch's ways then take turns, several rounds, and the medians are compared. All
configs are compiled first, in parallel. Each part is a process of its own with an end to its time:
a kernel that hangs or breaks takes its part with it, not the rest.

`--small` takes small sizes, to see that everything works. The small problems also run in the lab's
interpreter (tests/benchmarks/test_gallery.py).
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import platform
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import triton
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gallery_cases import (
    FULL,
    SMALL,
    Attention,
    Sizes,
    Way,
    backward_ways,
    delta_way,
    forward_ways,
    matmul_tensors,
    matmul_ways,
    softmax_ways,
    to_compile,
    vector_ways,
)

ROUNDS = 7
REST = 0.4
"""Seconds before a matrix product is timed: for some tens of milliseconds the GPU then has its full
clock, until it reaches its limit of power.
"""
SECONDS = {"vector add": 20, "softmax": 30, "matmul": 75, "attention 64": 60, "attention 128": 60}
"""The longest that each part may take."""


def distance(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The norm of the difference over the norm of what is wanted."""
    difference = (got.double() - wanted.double()).norm() / wanted.double().norm()
    return float(difference.item())


def milliseconds(call: Callable[[], Any], rep: float, of: str = "median") -> float:
    """The time of a call with a cold L2: the median or the mean of as many as `rep` ms hold."""
    if torch.cuda.is_available():
        return float(triton.testing.do_bench(call, 10, rep, return_mode=of))
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3


def megahertz() -> int | None:
    """The multiprocessors' clock now, where it can be asked for."""
    try:
        return torch.cuda.clock_rate()
    except Exception:  # No GPU, or no NVML.
        return None


def in_turns(
    ways: Mapping[str, Callable[[], Any]], rep: float, rest: float = 0.0, of: str = "median"
) -> dict[str, Any]:
    """Times of calls that take turns, forth and back in each round, with a rest before each turn:
    the median over the rounds, the least and the largest, and the clock just after a turn.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    clocks: dict[str, list[int]] = {name: [] for name in ways}
    for number in range(ROUNDS):
        for name in list(ways)[:: -1 if number % 2 else 1]:
            time.sleep(rest)
            times[name].append(milliseconds(ways[name], rep, of) * 1e3)
            clocks[name] += filter(None, [megahertz()])
    return {
        name: {
            "us": statistics.median(found),
            "range": [min(found), max(found)],
            "MHz": statistics.median(clocks[name]) if clocks[name] else None,
        }
        for name, found in times.items()
    }


def over(found: Mapping[str, Any], torchs: str, ours: str) -> float:
    """How many times as fast as torch: the ratio of the medians of one run."""
    return round(float(found[torchs]["us"]) / float(found[ours]["us"]), 4)


def tried(
    ways: Sequence[Way],
    outputs: Sequence[torch.Tensor],
    wanted: Sequence[torch.Tensor],
    at_most: float,
    rep: float,
    rest: float = 0.0,
) -> tuple[dict[str, Any], list[Way]]:
    """Every way once: checked, then timed; what was found, and the ways from the fastest."""
    found: dict[str, Any] = {}
    for way in ways:
        try:
            for output in outputs:
                output.fill_(float("nan"))
            way()
            error = max(map(distance, outputs, wanted))
            if not error <= at_most:
                raise ValueError(f"its result is off by {error:.3g}")
            time.sleep(rest)
            found[way.label] = {"us": milliseconds(way, rep) * 1e3, "error": error}
        except Exception as problem:  # A config may need more than the GPU has.
            found[way.label] = {"dropped": f"{type(problem).__name__}: {problem}"[:300]}
    fit = [way for way in ways if "us" in found[way.label]]
    return found, sorted(fit, key=lambda way: float(found[way.label]["us"]))


# Vector add


def vector_adds(sizes: Sizes, device: str) -> Iterator[dict[str, Any]]:
    """z = x + y in fp32, beside torch.add and torch's copy."""
    for size in sizes.vectors:
        x, y, out = (torch.rand(size, device=device) for _ in range(3))
        trials, best = tried(vector_ways(x, y, out), [out], [x + y], 0.0, 5)
        ways: dict[str, Callable[[], Any]] = {
            "ours": best[0],
            "torch": functools.partial(torch.add, x, y, out=out),
            "copy": functools.partial(out.copy_, x),
        }
        times = in_turns(ways, 20, of="mean")
        yield {
            "size": size,
            "best": best[0].label,
            "times": times,
            "GB/s": {
                name: count * 4 * size / times[name]["us"] / 1e3
                for name, count in (("ours", 3), ("torch", 3), ("copy", 2))
            },
            "over torch": over(times, "torch", "ours"),
            "trials": trials,
        }


# Softmax


def naive_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax by torch's single operations, as Triton's tutorial writes it: eager torch."""
    largest = x.max(dim=1)[0]
    numerator = torch.exp(x - largest[:, None])
    return numerator / numerator.sum(dim=1)[:, None]


def softmaxes(sizes: Sizes, device: str) -> Iterator[dict[str, Any]]:
    """Softmax of rows in fp32, beside torch's single operations and torch.softmax."""
    for columns in sizes.columns:
        x = torch.randn(sizes.elements // columns, columns, device=device)
        out = torch.empty_like(x)
        wanted = torch.softmax(x, 1)
        trials, best = tried(softmax_ways(x, out), [out], [wanted], 1e-6, 10)
        ways: dict[str, Callable[[], Any]] = {
            "ours": best[0],
            "eager": functools.partial(naive_softmax, x),
            "torch.softmax": functools.partial(torch.softmax, x, 1),
        }
        times = in_turns(ways, 15)
        yield {
            "rows": x.shape[0],
            "columns": columns,
            "best": best[0].label,
            "times": times,
            "GB/s": 8 * x.numel() / times["ours"]["us"] / 1e3,
            "over eager": over(times, "eager", "ours"),
            "over torch.softmax": over(times, "torch.softmax", "ours"),
            "trials": trials,
        }


# Matrix product


def matmuls(sizes: Sizes, device: str) -> Iterator[dict[str, Any]]:
    """c = a @ b in fp16, beside torch.matmul, which is cuBLAS there."""
    size = sizes.matrix
    a, b, c = matmul_tensors(size, device)
    wanted = a.float() @ b.float()
    ways = matmul_ways(a, b, c)
    trials, best = tried(ways, [c], [wanted], 1e-3, 15, REST)
    product = torch.empty_like(c)
    turns: dict[str, Callable[[], Any]] = {"torch": lambda: torch.matmul(a, b, out=product)}
    for way in best:
        turns.setdefault(way.name, way)
    found: dict[str, Any] = {
        "size": size,
        "best": {name: way.label for name, way in turns.items() if isinstance(way, Way)},
        "torch's error": distance(torch.matmul(a, b), wanted),
        "trials": trials,
    }
    for how, rep, rest in (("rested", 15, REST), ("without rest", 100, 0.0)):
        times = in_turns(turns, rep, rest)
        found[how] = {
            "times": times,
            "TFLOP/s": {name: 2 * size**3 / one["us"] / 1e6 for name, one in times.items()},
            "over torch": {name: over(times, "torch", name) for name in times if name != "torch"},
        }
    yield found


# Attention


BACKENDS = {"torch": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}


def torch_attention(problem: Attention, backend: SDPBackend, inputs: Sequence[Any]) -> Any:
    """scaled_dot_product_attention by one backend; by torch's plain one where there is no GPU."""
    q, k, v = inputs
    with sdpa_kernel([backend if q.is_cuda else SDPBackend.MATH]):
        return scaled_dot_product_attention(q, k, v, is_causal=problem.is_causal)


def with_gradients(problem: Attention, backend: SDPBackend) -> tuple[Any, Callable[[], Any]]:
    """torch's output, and a call of its way back."""
    inputs = [one.detach().requires_grad_() for one in (problem.q, problem.k, problem.v)]
    out = torch_attention(problem, backend, inputs)
    return out, lambda: torch.autograd.grad(out, inputs, problem.grad, retain_graph=True)


def errors_of_a_head(problem: Attention, torchs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Ours and torch's beside fp32 mathematics, for one head: output, dq, dk, dv."""
    inputs = [one[:1, :1].float().requires_grad_() for one in (problem.q, problem.k, problem.v)]
    with sdpa_kernel([SDPBackend.MATH]):
        q, k, v = inputs
        out = scaled_dot_product_attention(q, k, v, is_causal=problem.is_causal)
    wanted = [out, *torch.autograd.grad(out, inputs, problem.grad[:1, :1].float())]
    ours = (problem.out, problem.dq, problem.dk, problem.dv)
    return {
        name: [distance(one[:1, :1].detach(), exact.detach()) for one, exact in zip(found, wanted)]
        for name, found in (("ours", ours), ("torch", torchs))
    }


def best_ways(problem: Attention, wanted: Sequence[torch.Tensor]) -> tuple[Any, list[Way]]:
    """All trials, and the best way forward, its deltas, and the best ways to keys and queries;
    each has run, so that all that they write is there. `wanted` is torch's output, dq, dk, dv.
    """
    out, dq, dk, dv = wanted
    trials, forward = tried(forward_ways(problem), [problem.out], [out], 2e-3, 30)
    deltas = delta_way(problem)
    for way in (forward[0], deltas):
        way()
    keys, queries = backward_ways(problem)
    by_keys, best_keys = tried(keys, [problem.dk, problem.dv], [dk, dv], 2e-3, 30)
    by_queries, best_queries = tried(queries, [problem.dq], [dq], 2e-3, 30)
    chosen = [forward[0], deltas, best_keys[0], best_queries[0]]
    for way in chosen:
        way()
    return {**trials, **by_keys, **by_queries}, chosen


def one_by_one(ways: Sequence[Way]) -> None:
    """Several launches as one call."""
    for way in ways:
        way()


def one_attention(problem: Attention) -> dict[str, Any]:
    """Forward and backward of one problem."""
    out, back = with_gradients(problem, SDPBackend.FLASH_ATTENTION)
    wanted = [out.detach(), *back()]
    trials, chosen = best_ways(problem, wanted)
    inputs = (problem.q, problem.k, problem.v)
    ways: dict[str, Callable[[], Any]] = {"ours": chosen[0]}
    backs: dict[str, Callable[[], Any]] = {"ours": functools.partial(one_by_one, chosen[1:])}
    for name, backend in BACKENDS.items():
        ways[name] = functools.partial(torch_attention, problem, backend, inputs)
        backs[name] = with_gradients(problem, backend)[1]
    found = {"forward": in_turns(ways, 40), "backward": in_turns(backs, 60)}
    flops = {"forward": problem.forward_flops, "backward": 2.5 * problem.forward_flops}
    return {
        "shape": list(problem.q.shape),
        "causal": problem.is_causal,
        "best": [way.label for way in chosen],
        "errors": errors_of_a_head(problem, wanted),
        **{
            way: {
                "times": times,
                "TFLOP/s": {name: flops[way] / one["us"] / 1e6 for name, one in times.items()},
                "over": {name: over(times, name, "ours") for name in times if name != "ours"},
            }
            for way, times in found.items()
        },
        "trials": trials,
    }


def attentions(head: int, sizes: Sizes, device: str) -> Iterator[dict[str, Any]]:
    """Heads of one length: all shapes, causal or not."""
    for shape, is_causal in itertools.product(sizes.attention, (True, False)):
        yield one_attention(Attention.of((*shape, head), is_causal, device))


# All of it

Part = Callable[[Sizes, str], Iterator[dict[str, Any]]]
PARTS: dict[str, Part] = {
    "matmul": matmuls,
    "attention 64": functools.partial(attentions, 64),
    "attention 128": functools.partial(attentions, 128),
    "softmax": softmaxes,
    "vector add": vector_adds,
}


def compile_share(number: int, of: int, seconds: float) -> None:
    """One process's share of what is compiled; a config that cannot be is dropped later."""
    end = time.monotonic() + seconds
    for way in to_compile("cuda")[number::of]:
        if time.monotonic() > end:
            return
        try:
            way.compile()
        except Exception as problem:
            print(f"{way.label}: {type(problem).__name__}: {str(problem)[:200]}", flush=True)


def run_part(name: str, small: bool, device: str, file: Path) -> None:
    """Measure one part; the file is written after each problem."""
    torch.manual_seed(0)
    found: list[dict[str, Any]] = []
    try:
        for one in PARTS[name](SMALL if small else FULL, device):
            found.append(one)
            file.write_text(json.dumps(found))
            print(name, json.dumps({key: one[key] for key in one if key != "trials"}), flush=True)
    except Exception:
        traceback.print_exc()


def in_processes(calls: Sequence[Callable[[], None]], seconds: float) -> None:
    """Calls side by side, each in a process of its own, which ends when its time is over."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=call, daemon=True) for call in calls]
    for one in processes:
        one.start()
    end = time.monotonic() + seconds
    for one in processes:
        one.join(max(0.0, end - time.monotonic()))
        if one.is_alive():
            print(f"ended after {seconds:.0f} s", flush=True)
            one.kill()
            one.join()


def machine() -> dict[str, Any]:
    """What a reader of the numbers needs to know."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "triton": importlib.metadata.version("triton"),
        "cuda": torch.version.cuda,
        "rounds": ROUNDS,
    }


def write_machine(file: Path) -> None:
    """In a process of its own: the parent of all must not have touched the GPU."""
    file.write_text(json.dumps(machine()))


def main() -> None:
    """Compile, then measure part by part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=200.0, help="no part begins after these")
    chosen = parser.parse_args()
    started = time.monotonic()
    data: dict[str, Any] = {}
    if chosen.file.exists():
        data = json.loads(chosen.file.read_text())
    piece = chosen.file.with_suffix(".part")
    in_processes([functools.partial(write_machine, piece)], 60)
    data["machine"] = json.loads(piece.read_text())
    workers = max(1, (os.cpu_count() or 2) - 1)
    shares = [functools.partial(compile_share, one, workers, 50.0) for one in range(workers)]
    in_processes(shares, 70)
    print(f"compiled after {time.monotonic() - started:.0f} s", flush=True)
    for name in chosen.only:
        if time.monotonic() - started > chosen.seconds:
            print(f"{name}: not begun", flush=True)
            continue
        piece.unlink(missing_ok=True)
        call = functools.partial(run_part, name, chosen.small, "cuda", piece)
        in_processes([call], SECONDS[name])
        if piece.exists():
            data[name] = json.loads(piece.read_text())
            chosen.file.write_text(json.dumps(data, indent=1) + "\n")
        print(f"{name}: done after {time.monotonic() - started:.0f} s", flush=True)
    piece.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
