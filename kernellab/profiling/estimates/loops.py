"""How often each instruction of a kernel's SASS runs: loops of the machine code, matched with those
of the TTGIR, whose turns a run on the interpreter has counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import Block, Operation

from kernellab.compiler.modules.structure import kind, loops_around, parents
from kernellab.ir.operations import DotLike, has
from kernellab.profiling.estimates.pipes import product_of
from kernellab.records import Instruction

_LABEL = re.compile(r"^\s*(?P<label>\.L_\w+|[$\w.]+):\s*$")
_TO_LABEL = re.compile(r"`\((?P<label>[^)]+)\)")


@dataclass(eq=False)
class CodeLoop:
    """A loop of the machine code: instructions `first` to `last`, by their numbers.

    Attributes:
        around: the loop around it.
        turns: how often its body runs each time that a program comes to it, on average.
    """

    first: int
    last: int
    around: CodeLoop | None = None
    inside: list[CodeLoop] = field(default_factory=list)
    turns: float = 1.0

    def holds(self, number: int) -> bool:
        """Whether an instruction is in it."""
        return self.first <= number <= self.last


def code_loops(instructions: Sequence[Instruction], text: str) -> tuple[CodeLoop, ...]:
    """The loops of a function, the outermost ones; each goes from a label to the last jump back."""
    labels = _labels(instructions, text)
    ends: dict[int, int] = {}
    for number, instruction in enumerate(instructions):
        root = instruction.opcode.partition(".")[0]
        target = (
            _TO_LABEL.search(" ".join(instruction.operands)) if root in ("BRA", "BRX") else None
        )
        begin = labels.get(target["label"], number + 1) if target else number + 1
        if begin < number:
            ends[begin] = max(number, ends.get(begin, 0))
    top: list[CodeLoop] = []
    stack: list[CodeLoop] = []
    for first, last in sorted(ends.items(), key=lambda ends_of: (ends_of[0], -ends_of[1])):
        while stack and stack[-1].last < first:
            stack.pop()
        loop = CodeLoop(first, last, stack[-1] if stack else None)
        (stack[-1].inside if stack else top).append(loop)
        stack.append(loop)
    return tuple(top)


def _labels(instructions: Sequence[Instruction], text: str) -> Mapping[str, int]:
    """Label -> the number of the instruction behind it."""
    numbers = {instruction.line: number for number, instruction in enumerate(instructions)}
    labels: dict[str, int] = {}
    waiting: list[str] = []
    for line, words in enumerate(text.splitlines(), 1):
        if label := _LABEL.match(words):
            waiting.append(label["label"])
        elif line in numbers:
            labels.update(dict.fromkeys(waiting, numbers[line]))
            waiting = []
    return labels


@dataclass(frozen=True)
class Ran:
    """What a run on the interpreter says of the TTGIR.

    Attributes:
        operations: the operation on each line of its text.
        entries: how often a program entered each block, on average; blocks that all enter once,
            at the beginning, are not there.
        expected: of an access, how many instructions of a warp one execution is; of a product, how
            many multiply-adds.
    """

    operations: Mapping[int, Operation]
    entries: Mapping[Block, float]
    expected: Mapping[Operation, float]

    def entered(self, op: Operation) -> float:
        """How often a program executed an operation, on average."""
        block = op.parent
        return self.entries.get(block, 1.0) if block is not None else 1.0


class Executions:
    """How often a program's warps execute each instruction of the kernel."""

    def __init__(self, instructions: Sequence[Instruction], text: str, ran: Ran) -> None:
        self._instructions, self._ran = instructions, ran
        self.loops = code_loops(instructions, text)
        self._settle(self.loops)

    @cached_property
    def of_each(self) -> list[float]:
        """By the instruction's number."""
        executions = []
        for number in range(len(self._instructions)):
            loops = self.around(number)
            times = 1.0
            for loop in loops:
                times *= loop.turns
            executions.append(times * self._taken(number, len(loops)))
        return executions

    def around(self, number: int) -> list[CodeLoop]:
        """The loops around an instruction, the outermost first."""
        loops: list[CodeLoop] = []
        here: Sequence[CodeLoop] = self.loops
        while (loop := next((loop for loop in here if loop.holds(number)), None)) is not None:
            loops.append(loop)
            here = loop.inside
        return loops

    def operation(self, number: int) -> Operation | None:
        """The operation that an instruction comes from."""
        line = self._instructions[number].ttgir_line
        return None if line is None else self._ran.operations.get(line)

    def _taken(self, number: int, own: int) -> float:
        """The part of the times that control comes by in which an instruction under a condition
        runs: 1 for one that is under none. `own` loops of the code are around it.
        """
        op = self.operation(number)
        if op is None:
            return 1.0
        part = 1.0
        inside = op
        for parent in parents(op):
            if kind(parent) == "scf.if" and len(loops_around(parent)) <= own:
                block = inside.parent
                outside = self._ran.entered(parent)
                entered = self._ran.entries.get(block, 0.0) if block is not None else outside
                part *= min(1.0, entered / outside) if outside else 0.0
            inside = parent
        return part

    # Turns

    def _settle(self, loops: Sequence[CodeLoop], came: float = 1.0) -> None:
        """Give loops beside each other their turns; `came` is how often control comes to them."""
        by_source: dict[Operation | None, list[CodeLoop]] = defaultdict(list)
        for loop in loops:
            by_source[self._source(loop)].append(loop)
        for source, copies in by_source.items():
            self._share(source, copies, came)
            for loop in copies:
                self._settle(loop.inside, came * loop.turns)

    def _share(self, source: Operation | None, copies: Sequence[CodeLoop], came: float) -> None:
        """Share a TTGIR loop's turns out among its copies: those that do more turns at once first,
        what is left over to the others.
        """
        if source is None:
            return
        body = source.regions[-1].blocks.first
        left = self._ran.entries.get(body, 0.0) / came if body is not None and came else 0.0
        at_once = {id(loop): self._unrolled(loop, source) for loop in copies}
        for loop in sorted(copies, key=lambda copy: -at_once[id(copy)]):
            many = at_once[id(loop)]
            last = loop is min(copies, key=lambda copy: at_once[id(copy)])
            loop.turns = left / many if last else float(left // many)
            left -= loop.turns * many

    def _source(self, loop: CodeLoop) -> Operation | None:
        """The TTGIR loop that most of a loop's own instructions are in."""
        seen: Counter[Operation] = Counter()
        depth = 0
        up = loop.around
        while up is not None:
            depth, up = depth + 1, up.around
        for number in range(loop.first, loop.last + 1):
            if any(inner.holds(number) for inner in loop.inside):
                continue
            op = self.operation(number)
            if op is None:
                continue
            nest = loops_around(op)[::-1] + ([op] if kind(op) in ("scf.for", "scf.while") else [])
            if nest:
                seen[nest[-1]] += 1
        return seen.most_common(1)[0][0] if seen else None

    def _unrolled(self, loop: CodeLoop, source: Operation) -> int:
        """How many turns of the TTGIR's loop one turn of the code's is."""
        counted: Counter[Operation] = Counter()
        multiplied = 0.0
        for number in range(loop.first, loop.last + 1):
            if any(inner.holds(number) for inner in loop.inside):
                continue
            op, opcode = self.operation(number), self._instructions[number].opcode
            if (product := product_of(opcode)) is not None:
                multiplied += product.macs
            elif op is not None and opcode.partition(".")[0] in _COUNTED:
                if loops_around(op)[:1] == [source]:
                    counted[op] += 1
        ratios = sorted(
            number / self._ran.expected[op]
            for op, number in counted.items()
            if self._ran.expected.get(op)
        )
        if ratios:
            return max(1, round(ratios[len(ratios) // 2]))
        # Of several products only some instructions name their own line.
        products = sum(
            times
            for op, times in self._ran.expected.items()
            if has(op, DotLike) and loops_around(op)[:1] == [source]
        )
        return max(1, round(multiplied / products)) if products else 1


_COUNTED = frozenset(["LDG", "STG", "LDGSTS", "RED", "REDG", "ATOMG", "ATOM"])
