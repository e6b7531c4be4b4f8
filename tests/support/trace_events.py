"""Traces of hand-made events: what a program would tell, without a kernel."""

import linecache
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch

from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.tracing.recorder import Recorder, SeenAccess
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Checkpoint, TracedArgument, TracedFault, TraceFacts
from kernellab.tracing.values import ValueStore

SOURCE = """\
def total(x_ptr, z_ptr, n):
    acc = 0
    for k in range(n):
        x = load(x_ptr + 8 * k)
        acc = double(acc + x)
    store(z_ptr, acc)

def double(v):
    w = v + v
    return w
"""


class Events:
    """The events of `total` above, for tiles of eight floats."""

    def __init__(self, folder: Path, largest: int = 1 << 16) -> None:
        self.file = str(folder / "total.py")
        Path(self.file).write_text(SOURCE)
        linecache.getlines(self.file)  # as @triton.jit does
        self.values = ValueStore(largest)
        self.recorder = Recorder(self.values)
        self.x = torch.arange(24.0)
        self.z = torch.zeros(8)
        self.begin = {
            "x_ptr": self.values.add(self.x.numpy().copy()),
            "z_ptr": self.values.add(self.z.numpy().copy()),
        }

    def run(
        self,
        turns: int = 3,
        change: Callable[[int, numpy.ndarray], numpy.ndarray] = lambda _, tile: tile,
        program: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        """Tell what a program does; `change` alters what the k-th load gives."""
        tell, buffers = self.recorder, {"x_ptr": Buffer("x_ptr", self.x, numpy.dtype("f4"))}
        buffers["z_ptr"] = Buffer("z_ptr", self.z, numpy.dtype("f4"))
        tell.turn_of(program)
        tell.enter("total", self.file, 1, {"n": turns})
        tell.line(2)
        acc = numpy.zeros(8, numpy.float32)
        tell.bound({"acc": acc})
        for k in range(turns):
            tell.line(3)
            tell.bound({"k": numpy.int32(k)})
            tell.line(4)
            offsets = AffineTile(8 * k, (1,), (8,), numpy.dtype(numpy.int64))
            tell.access(SeenAccess("load", buffers["x_ptr"], "x_ptr", 4, offsets, None))
            x = change(k, self.x.numpy()[8 * k : 8 * k + 8].copy())
            tell.bound({"x": x})
            tell.line(5)
            tell.enter("double", self.file, 8, {"v": acc + x})
            tell.line(9)
            acc = numpy.clip((acc + x) * 2, 0, 1e30)
            tell.bound({"w": acc})
            tell.line(10)
            tell.leave()
            tell.bound({"acc": acc})
        tell.line(3)
        tell.line(6)
        mask = numpy.arange(8) < 7
        every = numpy.arange(8, dtype=numpy.int64)
        tell.access(SeenAccess("store", buffers["z_ptr"], "z_ptr", 4, every, mask))
        self.z[:7] = torch.from_numpy(acc)[:7]
        tell.leave()

    def trace(self, fault: TracedFault | None = None, **more: Any) -> Trace:
        self.recorder.end()
        programs = tuple(dict.fromkeys(frame.program for frame in self.recorder.frames))
        facts = TraceFacts(
            kernel="total", grid=(2, 1, 1), target="sm_90", programs=programs or ((0, 0, 0),),
            operations=False, constants={}, options={}, largest_exact=self.values.largest,
        )  # fmt: skip
        arguments: Mapping[str, TracedArgument] = {
            "x_ptr": TracedArgument("x_ptr", "float32", (24,), (1,), 0),
            "z_ptr": TracedArgument("z_ptr", "float32", (8,), (1,), 1),
        }
        return Trace(
            facts, self.recorder.steps, self.recorder.frames, self.values, arguments,
            [Checkpoint(0, self.begin)], self.recorder.sources, fault, **more,
        )  # fmt: skip
