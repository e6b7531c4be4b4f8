"""Find what an autotuner does to a kernel that is right by itself: it launches the kernel many
times on the same arguments before the launch that counts.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import CheckedAccess, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.shadow_values import Array, with_program_axis
from kernellab.errors import suggestion
from kernellab.interpreter.memory.global_memory import Atomic, CompareAndSwap, Load, MemoryAccess
from kernellab.ir.operations import locate
from kernellab.triton_api import definition_of


@dataclass
class _Used:
    """What the launch did with the elements of a storage.

    Attributes:
        written: which elements were written.
        kept: which elements were read before they were written.
        name: the argument that was read.
    """

    written: Array
    kept: Array
    name: str = ""


def _is_of_lock(request: MemoryAccess) -> bool:
    """Return whether an access takes or returns a lock, which is as before after a launch."""
    is_exchange = isinstance(request, Atomic) and request.operation == "exchange"
    return is_exchange or isinstance(request, CompareAndSwap)


class AutotunedInPlace(Detector):
    """Find arguments that a kernel reads and then overwrites, so that each trial of a config
    changes what the next one reads; and names in key= that no parameter has.
    """

    kinds = ("autotune",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._used: dict[Hashable, _Used] = {}
        self._reported: set[str] = set()

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return run.autotuner is not None

    def before(self, access: CheckedAccess) -> None:
        tuner = self.run.autotuner
        if tuner is None or tuner.restores_otherwise or len(tuner.configs) < 2:
            return
        buffer = access.buffer
        key = self.run.storage_of(buffer.tensor), buffer.itemsize
        if key not in self._used:
            size = len(buffer.elements)
            self._used[key] = _Used(numpy.zeros(size, bool), numpy.zeros(size, bool))
        used = self._used[key]
        index, on = numpy.broadcast_arrays(
            with_program_axis(access.index, access.rank),
            True if access.on is None else with_program_axis(access.on, access.rank),
        )
        elements = index[on]
        if access.action != "store":
            fresh = elements[~used.written[elements]]
            used.kept[fresh] = True
            used.name = used.name or (buffer.name if len(fresh) else "")
        if isinstance(access.request, Load):
            return
        used.written[elements] = True
        changes = not _is_of_lock(access.request) and used.kept[elements].any()
        if changes and not {used.name, buffer.name} & {*tuner.restored, *tuner.zeroed}:
            self._report(access.operation, buffer.name or used.name)

    def _report(self, op: Operation, name: str) -> None:
        if name in self._reported:
            return
        self._reported.add(name)
        facts: dict[str, Any] = {
            "argument": name,
            "places": locate(op.location).frames[::-1],
            "message": (
                f"the kernel reads and writes {name} under autotune without restore_value: each "
                "trial of a config reads what the trial before it wrote"
            ),
            "advice": _RESTORED,
        }
        self.collector.add((op, name), facts)

    def end(self) -> None:
        tuner, names = self.run.autotuner, self.run.kernel.arg_names
        assert tuner is not None
        for key, used in self._used.items():
            if used.name in tuner.zeroed and (used.written & used.kept).any():
                self._report_zeroed(key, used.name)
        for name in tuner.keys:
            if name not in names:
                facts = {
                    "position": definition_of(self.run.kernel),
                    "message": (
                        f"key= of triton.autotune has {name!r}, which is not a parameter of the "
                        "kernel: the configs are not tuned again for its values"
                    ),
                    "advice": suggestion(name, names, "Its parameters are"),
                }
                self.collector.add(("key", name), facts)

    def _report_zeroed(self, key: Hashable, name: str) -> None:
        """Report an argument with contents that the autotuner sets to zero."""
        tuner = self.run.autotuner
        assert tuner is not None
        if name in tuner.lost:
            facts = {
                "argument": name,
                "position": definition_of(self.run.kernel),
                "message": (
                    f"the kernel reads and writes {name} under autotune with reset_to_zero and "
                    f"without restore_value: {name} holds numbers, and the autotuner sets them to "
                    "zero before the kernel reads them"
                ),
                "advice": _RESTORED,
            }
            self.collector.add((key, name), facts)


_RESTORED = "Triton restores the arguments that restore_value= names after each trial."
