"""What kernels compute on a GPU and in the interpreter, compared element by element.

On a machine with an NVIDIA GPU, `python -m benchmarks.fidelity_outputs --record FOLDER` runs every
kernel there and keeps what it wrote. Anywhere, `python -m benchmarks.fidelity_outputs` runs the
same kernels in the interpreter and prints how far the two are apart: the tables of
docs/fidelity.md, which the tests replay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pandas
import torch
import triton

import kernellab
from benchmarks.eleven_kernels import cleared, eleven_cases, on_device
from benchmarks.harness import print_report
from benchmarks.small_cases import SMALL_CASES

DATA = Path(__file__).parent / "data"
OUTPUTS = "outputs_h200.npz"
FACTS = "outputs_h200.json"

KEPT = 2048
"""How many elements of an output are recorded, evenly spread over it."""

TARGET = "sm_90"


@dataclass(frozen=True)
class Row:
    """A kernel, a grid, and tensors that are made anew for each run.

    Attributes:
        group: the table that it stands in.
        ulp, scale: how far the outputs may be apart; see `small_cases.SmallCase`.
    """

    group: str
    name: str
    kernel: Any
    grid: Any
    arguments: dict[str, Any]
    constants: Mapping[str, Any]
    outputs: tuple[str, ...]
    ulp: float
    scale: str


LARGE_ULP = {
    "vector add": 0, "softmax": 4, "softmax, persistent": 4, "matmul fp16": 0.125, "layer norm": 4,
    "dropout": 0, "histogram by atomic_add": 0, "tl.histogram": 0, "cumsum": 16, "attention": 0.25,
    "attention by descriptors": 0.25,
}  # fmt: skip
"""Units in the last place of the largest output:
sums are made in another order, and exp2 is the hardware's."""


def rows() -> Iterator[Row]:
    """The eleven kernels, then the small ones."""
    for case in eleven_cases():
        arguments = cleared(case, case.make_arguments())
        constants = {**case.constants, **case.options}
        ulp = LARGE_ULP[case.name]
        yield Row(
            "eleven",
            case.name,
            case.kernel,
            case.grid,
            arguments,
            constants,
            tuple(case.tolerance),
            ulp,
            "largest",
        )
    for one in SMALL_CASES:
        yield Row(
            "small",
            one.name,
            one.kernel,
            one.grid,
            dict(one.tensors()),
            one.constants,
            one.outputs,
            one.ulp,
            one.scale,
        )


# --------------------------------------------------------------------------------------------------
# On a GPU
# --------------------------------------------------------------------------------------------------


def record(folder: Path) -> None:
    """Run every kernel on the GPU; write the kept elements, and a digest of everything that went
    in and came out.
    """
    kept: dict[str, numpy.ndarray] = {}
    facts: dict[str, Any] = {"machine": machine(), "rows": {}}
    for row in rows():
        given = digest(value for value in row.arguments.values() if isinstance(value, torch.Tensor))
        arguments = on_device(row.arguments, "cuda")
        row.kernel[row.grid](**arguments, **row.constants)
        outputs = [arguments[name].cpu() for name in row.outputs]
        facts["rows"][row.name] = {"inputs": given, "outputs": digest(outputs)}
        for name, output in zip(row.outputs, outputs):
            kept[key(row, name)] = sample(output)
    numpy.savez_compressed(folder / OUTPUTS, allow_pickle=False, **kept)
    (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


def machine() -> dict[str, str]:
    """What the numbers were taken on."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
    }


def key(row: Row, output: str) -> str:
    """The name of an output's elements in the archive."""
    return f"{row.name}/{output}"


def digest(tensors: Any) -> str:
    """SHA-256 of the tensors' bytes."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(raw(tensor).tobytes())
    return found.hexdigest()


def raw(tensor: torch.Tensor) -> numpy.ndarray:
    """The tensor's bytes, one row an element; every NaN has the same ones."""
    found: numpy.ndarray = tensor.contiguous().reshape(-1, 1).view(torch.uint8).numpy().copy()
    if tensor.dtype.is_floating_point:
        found[tensor.reshape(-1).double().isnan().numpy()] = 0xFF
    return found


def sample(tensor: torch.Tensor) -> numpy.ndarray:
    """The bytes of at most `KEPT` elements, evenly spread."""
    step = max(1, -(-tensor.numel() // KEPT))
    return raw(tensor.reshape(-1)[::step])


# --------------------------------------------------------------------------------------------------
# Anywhere
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """One row of the table.

    Attributes:
        elements: how many were compared.
        differing: how many of them are not the same number; two NaNs are.
        ulp: the largest distance, in the row's own units.
        whole: True where every bit of every output is the GPU's, those of NaNs excepted.
    """

    row: Row
    elements: int
    differing: int
    ulp: float
    whole: bool

    @property
    def within(self) -> bool:
        """Whether the interpreter is as near as the row says."""
        return self.ulp <= self.row.ulp


def compare(
    row: Row, facts: Mapping[str, Any], recorded: Mapping[str, numpy.ndarray]
) -> Comparison:
    """Run a kernel in the interpreter, beside what the GPU wrote.

    Raises:
        ValueError: the inputs made here are not those that the GPU had.
    """
    expected = facts["rows"][row.name]
    tensors = [value for value in row.arguments.values() if isinstance(value, torch.Tensor)]
    if digest(tensors) != expected["inputs"]:
        raise ValueError(f"the inputs of {row.name!r} are not those that were recorded")
    kernellab.run(row.kernel, row.grid, **row.arguments, **row.constants)
    outputs = [row.arguments[name] for name in row.outputs]
    elements = differing = 0
    distance = 0.0
    for name, output in zip(row.outputs, outputs):
        ours = torch.from_numpy(sample(output)).view(output.dtype).flatten()
        theirs = torch.from_numpy(recorded[key(row, name)]).view(output.dtype).flatten()
        apart = distances(ours, theirs, row.scale)
        elements += len(apart)
        differing += int((apart != 0).sum())
        distance = max(distance, float(apart.max()))
    return Comparison(row, elements, differing, distance, digest(outputs) == expected["outputs"])


def distances(ours: torch.Tensor, theirs: torch.Tensor, scale: str) -> numpy.ndarray:
    """How far apart two outputs are, element by element, in units of the last place;
    integers in ones.
    """
    if not theirs.dtype.is_floating_point:
        difference = ours.numpy().astype(object) - theirs.numpy().astype(object)
        whole: numpy.ndarray = numpy.abs(difference.astype(float))
        return whole
    mine, other = ours.double().numpy(), theirs.double().numpy()
    same = (mine == other) | (numpy.isnan(mine) & numpy.isnan(other))
    of = numpy.abs(other)
    if scale == "largest":
        of = numpy.full_like(of, numpy.max(of, initial=0, where=numpy.isfinite(of)))
    with numpy.errstate(invalid="ignore"):
        units = numpy.abs(mine - other) / last_place(of, theirs.dtype)
    return numpy.where(same, 0.0, numpy.where(numpy.isnan(units), numpy.inf, units))


def last_place(magnitude: numpy.ndarray, dtype: torch.dtype) -> numpy.ndarray:
    """The unit in the last place of numbers of a floating-point type."""
    info = torch.finfo(dtype)
    normal = numpy.maximum(numpy.where(numpy.isfinite(magnitude), magnitude, 1.0), info.tiny)
    unit: numpy.ndarray = numpy.exp2(numpy.floor(numpy.log2(normal))) * info.eps
    return unit


def comparisons() -> Iterator[Comparison]:
    """Every row against the recorded run."""
    facts = json.loads((DATA / FACTS).read_text())
    with numpy.load(DATA / OUTPUTS) as recorded:
        for row in rows():
            yield compare(row, facts, recorded)


def table(found: list[Comparison]) -> pandas.DataFrame:
    """What docs/fidelity.md shows."""
    return pandas.DataFrame(
        {
            "kernel": one.row.name,
            "elements": f"{one.elements:,}",
            "other numbers": f"{one.differing:,}",
            "largest distance, ulp": f"{one.ulp:.3g}",
            "allowed": f"{one.row.ulp:g}",
            "of": {"value": "each value", "largest": "the largest"}[one.row.scale],
            "every bit of all outputs": "yes" if one.whole else "no",
        }
        for one in found
    )


def main() -> None:
    """Record, or print the tables; exits with 1 where a row is farther off than it says."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--record", type=Path, help="run on this machine's GPU and write the outputs to this folder"
    )
    folder = arguments.parse_args().record
    if folder is not None:
        record(folder)
        return
    found = list(comparisons())
    facts = json.loads((DATA / FACTS).read_text())["machine"]
    for group, title in (("eleven", "The eleven kernels"), ("small", "Small kernels")):
        part = [comparison for comparison in found if comparison.row.group == group]
        equal = [comparison.row.name for comparison in part if comparison.differing == 0]
        recorded = f"{facts['gpu']}, Triton {facts['triton']}, torch {facts['torch']}"
        print_report(
            title,
            table([comparison for comparison in part if comparison.differing]),
            f"The other {len(equal)} of {len(part)} give the same bits: {', '.join(equal)}. "
            f"Recorded on: {recorded}.",
        )
    raise SystemExit(any(not one.within for one in found))


if __name__ == "__main__":
    main()
