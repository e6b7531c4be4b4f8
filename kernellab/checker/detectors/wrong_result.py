"""Results that are not what the launch's author says they should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.last_writer import LastWriter
from kernellab.checker.lazy_copies import LazyCopies
from kernellab.checker.outcomes import Apart, Results, differences, within
from kernellab.ir.locations import locate
from kernellab.launch.differences import UNWRITTEN, wrong_words
from kernellab.triton_api import definition_of

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class WrongResult(Detector):
    """Compares what the run left with what was expected, and asks who wrote the first element
    that is off.
    """

    kinds = ("wrong-result",)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(run.expected)

    def ask(self, session: CheckSession) -> None:
        found = {name: self.run.tensors[name] for name in self.run.expected}
        left = Results(found, self.run.copies)
        right = Results(self.run.expected, LazyCopies())
        for apart in differences(left, right, within(*self.run.tolerances)):
            writers: list[LastWriter] = []

            def watch(
                run: CheckedRun, apart: Apart = apart, writers: list[LastWriter] = writers
            ) -> Sequence[Detector]:
                writers[:] = [LastWriter(run, apart)]
                return writers

            session.repeat(watch)
            self._report(apart, writers[0])

    def _report(self, apart: Apart, writer: LastWriter) -> None:
        size = self.run.tensors[apart.name].numel()
        facts: dict[str, Any] = {
            "kind": self.kinds[0],
            "argument": apart.name,
            "index": apart.index,
            "position": definition_of(self.run.kernel),
            "advice": UNWRITTEN,
        }
        if writer.operation is not None:
            frames = locate(writer.operation.location).frames
            program = self.run.program_id(writer.programs[0]) if writer.programs else (0, 0, 0)
            facts |= {
                "position": frames[0] if frames else None,
                "calls": tuple(reversed(frames[1:])),
                "lane": writer.place,
                "values": writer.values,
                "advice": _STEP.format(_shortest(program)),
            }
        facts["message"] = wrong_words(
            apart.element, apart.one_text, apart.other_text, apart.count, size
        )
        self.collector.add(apart.name, facts, writer.programs[:1], apart.count)


_STEP = (
    "Look at how it comes about: %tilestep --program {0} before the launch; with the same --expect "
    "it opens at the step that wrote it, as does kernellab.trace(..., expect=...)."
)


def _shortest(program: tuple[int, int, int]) -> str:
    """A program's id as `%tilestep` takes it, zeros at its end left out."""
    x, y, z = program
    return f"{x},{y},{z}" if z else f"{x},{y}" if y else str(x)
