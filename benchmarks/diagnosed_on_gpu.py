"""Each slow kernel of the corpus beside its good twin, on the GPU of this machine.

    python -m benchmarks.diagnosed_on_gpu --json notebooks/recorded/diagnosed_h200.json

What is measured replaces what the file has of the same pairs, and is added to it; `--untimed`
measures the pairs that it does not have. Both kernels of a
pair run once and their outputs are compared; then they are timed in turns, slow, good, slow, good,
each time the median of `triton.testing.do_bench`, which empties the L2 cache before each run. With
`--rehearse`, everything but the GPU: both are compiled for sm_90. With `--replay FILE`, both are
diagnosed with no GPU, and compared with what is recorded there.
"""

from __future__ import annotations

import argparse
import json
import linecache
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import triton
import triton.testing

from benchmarks.diagnosed.corpus import PAIRS
from benchmarks.diagnosed.held_out import HELD_OUT
from benchmarks.diagnosed.pairs import Pair, Variant, diagnosed

ALL = (*PAIRS, *HELD_OUT)
_ROUNDS = 2
_WARM_UP, _MEASURED = 4, 16
"""Milliseconds of a round."""


def launcher(variant: Variant, made: dict[Any, torch.Tensor]) -> tuple[Callable[[], Any], Any]:
    """What launches a kernel, and its arguments; equal inputs are made once."""
    values = {
        name: _tensor(name, one, made) if hasattr(one, "made") else one
        for name, one in variant.arguments.items()
    }

    def launch() -> Any:
        return variant.kernel[variant.grid](**values, **variant.constants, **variant.options)

    return launch, values


def _tensor(name: str, one: Any, made: dict[Any, torch.Tensor]) -> torch.Tensor:
    if one.fill == "zeros":
        return one.made(name, "cuda")  # type: ignore[no-any-return]
    if (name, one) not in made:
        made[name, one] = one.made(name, "cuda")
    return made[name, one]


def difference(pair: Pair, slow: dict[str, Any], good: dict[str, Any]) -> float:
    """How far apart the outputs are, of the largest number among them."""
    worst = 0.0
    for name in pair.outputs:
        mine, theirs = (
            one[name].flatten()[: pair.compared].to(torch.float64) for one in (slow, good)
        )
        largest = float(theirs.abs().max().clamp(min=1e-30))
        worst = max(worst, float((mine - theirs).abs().max()) / largest)
    return worst


def measured(pair: Pair) -> dict[str, Any]:
    """What the GPU says of a pair: microseconds of each round, and how far outputs differ."""
    made: dict[Any, torch.Tensor] = {}
    launches = [launcher(one, made) for one in (pair.slow, pair.good)]
    for launch, _ in launches:
        launch()
    torch.cuda.synchronize()
    apart = difference(pair, launches[0][1], launches[1][1])
    rounds: list[list[float]] = [[], []]
    for _ in range(_ROUNDS):
        for times, (launch, _) in zip(rounds, launches):
            found = triton.testing.do_bench(
                launch, warmup=_WARM_UP, rep=_MEASURED, return_mode="median"
            )
            times.append(1e3 * float(found))
    slow, good = map(median, rounds)
    return {
        "name": pair.name,
        "kind": pair.kind,
        "edit": pair.edit,
        "slow_us": round(slow, 3),
        "good_us": round(good, 3),
        "ratio": round(slow / good, 3),
        **({} if pair.predicted is None else {"predicted": pair.predicted}),
        "rounds_us": [[round(one, 3) for one in times] for times in rounds],
        "difference": apart,
        "agree": apart <= pair.tolerance,
    }


def rehearsed(pair: Pair) -> dict[str, Any]:
    """Both kernels compiled with no GPU."""
    import kernellab

    for one in (pair.slow, pair.good):
        kernellab.compile(
            one.kernel, constants=dict(one.constants), options=dict(one.options), target="sm_90",
            record="stages", **one.types,
        )  # fmt: skip
    return {"name": pair.name, "kind": pair.kind, "ratio": 0.0, "agree": True}


def replayed(pair: Pair, known: dict[str, Any]) -> dict[str, Any]:
    """What is estimated and promised with no GPU, over what was measured."""
    slow, good = map(diagnosed, (pair.slow, pair.good))
    of_kind = [one for one in slow if one.kind == pair.kind]
    promised = [1 / max(1 - one.cost, 1e-3) for one in of_kind]
    places = (one.position for one in of_kind if one.position is not None)
    lines = [linecache.getline(place.file, place.line) for place in places]
    return {
        "name": pair.name,
        "ratio": known["ratio"],
        "slow": round(slow.microseconds / known["slow_us"], 3),
        "good": round(good.microseconds / known["good_us"], 3),
        "gain": round(promised[0] / known["ratio"], 3) if promised else None,
        "on the line": bool(of_kind)
        and (not pair.line or any(pair.line in line for line in lines)),
        "is first": bool(len(slow)) and slow[0].kind == pair.kind,
        "warnings on the twin": [one.kind for one in good.severe if one.kind not in pair.also],
    }


def replay(file: Path, names: list[str]) -> None:
    """Print each pair's estimates and promised gain over the measured ones, and a summary."""
    rows = []
    for known in json.loads(file.read_text())["pairs"]:
        (pair,) = (one for one in ALL if one.name == known["name"])
        if not names or any(word in pair.name for word in names):
            rows.append(replayed(pair, known))
            print(json.dumps(rows[-1]), flush=True)
    held_out = {pair.name for pair in HELD_OUT}
    print("All pairs")
    summarize(rows)
    print("Held out")
    summarize([row for row in rows if row["name"] in held_out])


def summarize(rows: list[dict[str, Any]]) -> None:
    """Print the numbers of docs/diagnosis.md."""
    for word in ("slow", "good"):
        errors = [abs(row[word] - 1) for row in rows]
        near = sum(error <= 0.25 for error in errors)
        print(f"{word}: median error {median(errors):.1%}, {near} of {len(rows)} within 25 %")
    fast = [row for row in rows if row["ratio"] >= 1.2]
    gains = [row["gain"] for row in fast if row["gain"]]
    near = sum(1 / 1.5 <= gain <= 1.5 for gain in gains)
    apart = [row for row in rows if row["ratio"] >= 1.1]
    right = sum(row["slow"] * row["ratio"] > row["good"] for row in apart)
    alarmed = [row["name"] for row in rows if row["warnings on the twin"]]
    print(f"of those that gain 1.2 times: named {len(gains)} of {len(fast)}, ", end="")
    print(f"on the line {sum(row['on the line'] for row in fast)}, ", end="")
    print(f"promised gains within 1.5 times {near} of {len(gains)}")
    print(f"of those that gain 1.1 times: faster kernel right in {right} of {len(apart)}")
    print(f"twins with a warning: {len(alarmed)} ({', '.join(alarmed)})")


def main() -> None:
    """Measure all pairs, or those of some names; what is known is written after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument("--untimed", action="store_true", help="only what the file does not have")
    parser.add_argument("--rehearse", action="store_true", help="compile only, with no GPU")
    parser.add_argument("--replay", type=Path, help="diagnose what this file has the times of")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no pair after so long")
    parser.add_argument("names", nargs="*", help="pairs whose names have one of these words")
    given = parser.parse_args()
    if given.replay is not None:
        replay(given.replay, given.names)
        return
    started = time.monotonic()
    results: dict[str, dict[str, Any]] = {}
    if given.json is not None and given.json.exists():
        results = {one["name"]: one for one in json.loads(given.json.read_text())["pairs"]}
    chosen = [
        pair
        for pair in ALL
        if (not given.names or any(word in pair.name for word in given.names))
        and not (given.untimed and pair.name in results)
    ]
    on_gpu = not given.rehearse
    about = {
        "gpu": torch.cuda.get_device_name() if on_gpu else "none",
        "torch": torch.__version__,
        "triton": triton.__version__,
        "method": f"do_bench, cold L2, median; {_ROUNDS} rounds in turns",
    }
    for pair in chosen:
        if time.monotonic() - started > given.seconds:
            break
        try:
            found = (measured if on_gpu else rehearsed)(pair)
        except Exception as error:
            found = {"name": pair.name, "kind": pair.kind, "error": repr(error)[:500]}
        results[pair.name] = found
        print(json.dumps(found), flush=True)
        if given.json is not None:
            given.json.write_text(
                json.dumps({**about, "pairs": list(results.values())}, indent=1) + "\n"
            )
    ratios = [results[pair.name].get("ratio", 0) for pair in chosen if pair.name in results]
    fast, seconds = sum(ratio >= 1.2 for ratio in ratios), time.monotonic() - started
    print(f"{fast} of {len(ratios)} at least 1.2 times faster, {seconds:.0f} s")


if __name__ == "__main__":
    main()
