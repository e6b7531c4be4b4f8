"""Find results that differ from those that the caller expects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.inputs_behind import inputs_by_argument, inputs_in
from kernellab.checker.last_writer import LastWriter, last_writer
from kernellab.checker.lazy_copies import LazyCopies
from kernellab.checker.outcomes import Apart, Results, differences, within
from kernellab.checker.records import Inputs
from kernellab.errors import KernelLabError
from kernellab.ir.locations import locate
from kernellab.launch.differences import UNWRITTEN, wrong_words
from kernellab.triton_api import definition_of

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class WrongResult(Detector):
    """Compare the results of the run with the expected ones, and find the line and the program
    that wrote the first wrong element.
    """

    kinds = ("wrong-result",)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(run.expected)

    def investigate(self, session: CheckSession) -> None:
        tensors = {name: self.run.tensors[name] for name in self.run.expected}
        actual = Results(tensors, self.run.copies)
        expected = Results(self.run.expected, LazyCopies())
        allowed = within(*self.run.tolerances, self.run.expected.allowed)
        for apart in differences(actual, expected, allowed):
            writer = last_writer(apart, session.repeat)
            self._report(apart, writer, self._inputs(apart, writer, session))

    def _inputs(
        self, apart: Apart, writer: LastWriter, session: CheckSession
    ) -> tuple[Inputs, ...] | None:
        """Return what the element was computed from; None if its program does not run alone."""
        if writer.last is None:
            return None
        tensor = self.run.tensors[apart.name]
        offset = sum(place * step for place, step in zip(apart.index, tensor.stride()))
        try:
            return inputs_by_argument(inputs_in(session, writer.last, apart.name, offset))
        except KernelLabError:
            return None

    def _report(self, apart: Apart, writer: LastWriter, inputs: tuple[Inputs, ...] | None) -> None:
        size = self.run.tensors[apart.name].numel()
        facts: dict[str, Any] = {
            "kind": self.kinds[0],
            "argument": apart.name,
            "index": apart.index,
            "places": (definition_of(self.run.kernel),),
            "advice": UNWRITTEN,
        }
        if writer.operation is not None:
            program = (0, 0, 0) if writer.last is None else self.run.program_id(writer.last)
            facts |= {
                "places": locate(writer.operation.location).frames[::-1],
                "lane": writer.place,
                "values": writer.values,
                "inputs": inputs,
                "advice": _STEP.format(_program_option(program)),
            }
        facts["message"] = wrong_words(apart.element, apart.value, apart.other, apart.count, size)
        self.collector.add(
            apart.name, facts, () if writer.last is None else (writer.last,), apart.count
        )


_STEP = (
    "To see how the value is computed, put %tilestep --program {0} in front of the launch. With "
    "the same --expect it opens at the step that wrote the element; so does "
    "kernellab.trace(..., expect=...)."
)


def _program_option(program: tuple[int, int, int]) -> str:
    """Return a program's id as `%tilestep --program` takes it, without zeros at the end."""
    x, y, z = program
    return f"{x},{y},{z}" if z else f"{x},{y}" if y else str(x)
