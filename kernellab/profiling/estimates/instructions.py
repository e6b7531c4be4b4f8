"""Instructions of a kernel's SASS: their units, how often they run, and their cycles."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from xdsl.ir import Block, Operation

from kernellab.compiler.machine_code.instructions import category_of
from kernellab.compiler.records import Instruction
from kernellab.ir import flow, mlir
from kernellab.ir.flow import loops_around
from kernellab.ir.operations import DotLike, Elementwise, has, parents

# Which unit of an NVIDIA multiprocessor executes an instruction, and how much of a matmul one
# instruction is.
#
# The units and their rates: CUDA C++ Programming Guide, "Arithmetic Instructions", table
# "Throughput of Native Arithmetic Instructions"; which opcode goes to which: Nsight Compute's
# documentation, "Pipelines".


Pipe = Literal["fma", "alu", "special", "double", "shared", "global", "tensor", "other"]
"""Units: "special" is XU (special functions, conversions), "shared" takes what goes to shared
memory or from lane to lane, "global" what goes to global and local memory, "other" what only takes
an issue slot."""

_FMA = (
    "FFMA FMUL FADD FFMA32I FMUL32I FADD32I FFMA2 FADD2 FMUL2 IMAD IMUL HFMA2 HADD2 HMUL2 IDP IDP4A"
)
_ALU = (
    "IADD IADD3 IADD32I LOP LOP3 LOP32I SHF SHL SHR LEA ISCADD PRMT SEL FSEL FMNMX FMNMX3 IMNMX "
    "VIADD VIADDMNMX VIMNMX VIMNMX3 VHMNMX IABS ISETP FSETP HSETP2 FSET HSET2 HMNMX2 PLOP3 PSETP "
    "P2R R2P BMSK SGXT F2FP F2IP I2FP VABSDIFF VABSDIFF4 FCHK FSWZADD MOV"
)
_SPECIAL = "MUFU F2F F2I I2F I2I FRND POPC FLO BREV"
_DOUBLE = "DADD DFMA DMUL DSETP"
_OF: dict[str, Pipe] = {
    **dict.fromkeys(_FMA.split(), "fma"),
    **dict.fromkeys(_ALU.split(), "alu"),
    **dict.fromkeys(_SPECIAL.split(), "special"),
    **dict.fromkeys(_DOUBLE.split(), "double"),
    **dict.fromkeys(("SHFL", "MATCH"), "shared"),
}


def pipe_of(opcode: str) -> Pipe:
    """The unit of an opcode, with or without its modifiers."""
    root = opcode.partition(".")[0]
    if root in _OF:
        return _OF[root]
    category = category_of(root)
    if category == "matrix" and root != "MOVM":
        return "tensor"
    if category.startswith("shared"):
        return "shared"
    if category.startswith(("global", "local")) or root == "LDGSTS":
        return "global"
    return "other"


_SHAPES = {
    "16816": (16, 8, 16),
    "1688": (16, 8, 8),
    "1684": (16, 8, 4),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
    "884": (8, 8, 4),
}
_GROUP_SHAPE = re.compile(r"\.(\d+)x(\d+)x(\d+)\b")
_BITS = {
    "HMMA": 16, "HGMMA": 16, "IMMA": 8, "IGMMA": 8, "QMMA": 8, "QGMMA": 8, "DMMA": 64,
    "BMMA": 1, "BGMMA": 1, "OMMA": 4,
}  # fmt: skip


class Product(NamedTuple):
    """A matrix instruction."""

    macs: int
    """Multiply-adds of one warp's instruction; a warp group's is four warps' together."""
    bits: int
    """Of an element of its operands; tf32 counts as 32."""
    asynchronous: bool
    """Whether a group of four warps starts it, and goes on (wgmma)."""


def product_of(opcode: str) -> Product | None:
    """What a matrix instruction multiplies; None if its name does not say it."""
    root, *words = opcode.split(".")
    bits = 32 if "TF32" in words else _BITS.get(root, 16)
    if match := _GROUP_SHAPE.search(opcode):
        m, n, k = map(int, match.groups())
        return Product(m * n * k // 4, bits, asynchronous=True)
    for word in words:
        if word in _SHAPES:
            m, n, k = _SHAPES[word]
            return Product(m * n * k, bits, asynchronous=False)
    return None


# How often each instruction of a kernel's SASS runs: loops of the machine code, matched with
# those of the TTGIR, whose turns a run on the interpreter has counted.


_LABEL = re.compile(r"^\s*(?P<label>\.L_\w+|[$\w.]+):\s*$")
_TO_LABEL = re.compile(r"`\((?P<label>[^)]+)\)")


@dataclass(eq=False)
class CodeLoop:
    """A loop of the machine code: instructions `first` to `last`, by their numbers. The iterations
    that an unrolled loop leaves over, behind a condition, are a loop that runs at most once.

    Attributes:
        is_once: whether it does not jump back.
        turns: how often its body runs each time that a program reaches the enclosing loop, on
            average: a loop under a condition that holds for every second program runs half as
            often.
    """

    first: int
    last: int
    around: CodeLoop | None = None
    inside: list[CodeLoop] = field(default_factory=list)
    source: Operation | None = None
    is_once: bool = False
    turns: float = 1.0

    def holds(self, number: int) -> bool:
        return self.first <= number <= self.last


def _jumps(instructions: Sequence[Instruction], text: str) -> Iterator[tuple[int, int]]:
    """Yield the number of each jump and its target; the kernel's end is behind the last exit."""
    labels = _labels(instructions, text)
    end = len(instructions)
    ends = []
    for number, instruction in reversed([*enumerate(instructions)]):
        root = instruction.opcode.partition(".")[0]
        if root == "EXIT":
            end = end if instruction.predicate else number + 1
            ends.append((number, end))
        elif root in ("BRA", "BRX"):
            target = _TO_LABEL.search(" ".join(instruction.operands))
            if target is not None and target["label"] in labels:
                ends.append((number, labels[target["label"]]))
    yield from reversed(ends)


def code_loops(jumps: Iterable[tuple[int, int]]) -> list[CodeLoop]:
    """The loops of a function, the outermost ones; each goes from a label to the last jump back."""
    ends: dict[int, int] = {}
    for number, begin in jumps:
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
    return top


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
    """The facts about the TTGIR from a run on the interpreter.

    Attributes:
        operations: the operation on each line of its text.
        entries: how often a program entered each block on average; without blocks that every
            program enters once.
        expected: of an access, how many instructions of a warp one execution is; of a product, how
            many multiply-adds; of an operation that is one instruction for each element, how many
            elements a thread has.
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
        self._jumps = list(_jumps(instructions, text))
        self.loops = code_loops(self._jumps)
        self._settle(self.loops)

    @cached_property
    def of_each(self) -> list[float]:
        """By the instruction's number."""
        executions = []
        for number in range(len(self._instructions)):
            loops = self.around(number)
            times = 0.0 if number in self._rare else 1.0
            for loop in loops:
                times *= loop.turns
            executions.append(times * self._taken(number, loops))
        return executions

    @cached_property
    def _rare(self) -> set[int]:
        """Instructions for rare inputs of one operation, such as `pow` of zeros and denormals."""
        rare: set[int] = set()
        for jump, to in self._jumps:
            behind = range(jump + 1, to)
            if self._instructions[jump].predicate and len(behind):
                ops = {op for number in behind if (op := self.operation(number)) is not None}
                if len(ops) == 1 and all(has(op, Elementwise) for op in ops):
                    rare.update(behind)
        return rare

    def around(self, number: int) -> list[CodeLoop]:
        """The loops around an instruction, the outermost first."""
        loops: list[CodeLoop] = []
        here: Sequence[CodeLoop] = self.loops
        while (loop := next((loop for loop in here if loop.holds(number)), None)) is not None:
            loops.append(loop)
            here = loop.inside
        return loops

    def operation(self, number: int) -> Operation | None:
        """The operation of an instruction."""
        line = self._instructions[number].ttgir_line
        return None if line is None else self._ran.operations.get(line)

    def _taken(self, number: int, loops: Sequence[CodeLoop]) -> float:
        """The part of the turns of the `loops` around it in which an instruction under a condition
        runs: 1 for one that is under none. Conditions around a loop are in its turns.
        """
        op = self.operation(number)
        if op is None:
            return 1.0
        part = 1.0
        inside = op
        sources = {loop.source for loop in loops}
        for parent in parents(op):
            if parent in sources:
                break
            if isinstance(parent, mlir.IfOp) and len(loops_around(parent)) <= len(loops):
                block = inside.parent
                outside = self._ran.entered(parent)
                entered = self._ran.entries.get(block, 0.0) if block is not None else outside
                part *= min(1.0, entered / outside) if outside else 0.0
            inside = parent
        return part

    # Turns

    def _settle(self, loops: list[CodeLoop], came: float = 1.0) -> None:
        """Give loops beside each other their turns; `came` is how often control comes to them."""
        by_source: dict[Operation | None, list[CodeLoop]] = defaultdict(list)
        for loop in loops:
            by_source[self._source(loop)].append(loop)
        for source, copies in by_source.items():
            if source is not None:
                left_over = self._left_over(source, copies, loops)
                loops += left_over
                copies += left_over
            self._share(source, copies, came)
            for loop in copies:
                loop.source = source
                self._settle(loop.inside, came * loop.turns)

    def _left_over(
        self, source: Operation, copies: Sequence[CodeLoop], beside: Sequence[CodeLoop]
    ) -> list[CodeLoop]:
        """Return the turns that a TTGIR loop's `copies` leave over, to code beside them."""
        around = copies[0].around
        whole = range(len(self._instructions))
        if around is not None:
            whole = range(around.first, around.last + 1)
        body = set().union(*(self._own(source, loop.first, loop.last) for loop in copies))
        left_over: list[CodeLoop] = []
        for jump, to in sorted(self._jumps, key=lambda ends: ends[1] - ends[0]):
            if jump not in whole or to - 1 not in whole or to < jump + 2:
                continue
            part = CodeLoop(jump + 1, to - 1, around, is_once=True)
            if any(
                part.first <= loop.last and loop.first <= part.last
                for loop in (*beside, *left_over)
            ):
                continue
            if len(body & self._own(source, part.first, part.last)) > _MOST * len(body):
                left_over.append(part)
        return left_over

    def _own(self, source: Operation, first: int, last: int) -> set[Operation]:
        """Return the operations of a loop, without those of loops in it, that code comes from."""
        ops = map(self.operation, range(first, last + 1))
        return {op for op in ops if op is not None and loops_around(op)[:1] == [source]}

    def _share(self, source: Operation | None, copies: Sequence[CodeLoop], came: float) -> None:
        """Share a TTGIR loop's turns out among its copies, those that do more at once first."""
        if source is None:
            return
        body = source.regions[-1].blocks.first
        left = self._ran.entries.get(body, 0.0) / came if body is not None and came else 0.0
        at_once = {id(loop): self._unrolled(loop, source) for loop in copies}
        in_order = sorted(copies, key=lambda copy: (-at_once[id(copy)], not copy.is_once))
        for loop in in_order:
            many = at_once[id(loop)]
            loop.turns = left / many if loop is in_order[-1] else float(left // many)
            if loop.is_once:
                loop.turns = min(loop.turns, 1.0)
            left -= loop.turns * many
        if left > 0:
            loop = next(loop for loop in in_order if not loop.is_once)
            loop.turns += left / at_once[id(loop)]

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
            nest = loops_around(op)[::-1] + ([op] if isinstance(op, flow.LOOPS) else [])
            if nest:
                seen[nest[-1]] += 1
        return seen.most_common(1)[0][0] if seen else None

    def _unrolled(self, loop: CodeLoop, source: Operation) -> int:
        """How many iterations of the TTGIR's loop one iteration of the code's loop is."""
        own = {
            op: times
            for op, times in self._ran.expected.items()
            if times and loops_around(op)[:1] == [source]
        }
        counted: Counter[Operation] = Counter()
        computed: Counter[Operation] = Counter()
        multiplied = floats = 0.0
        for number in range(loop.first, loop.last + 1):
            if any(inner.holds(number) for inner in loop.inside):
                continue
            op, opcode = self.operation(number), self._instructions[number].opcode
            if (product := product_of(opcode)) is not None:
                multiplied += product.macs
            elif op in own:
                root = opcode.partition(".")[0]
                elements = _ELEMENTS.get(root, 0)
                if root in _COUNTED:
                    counted[op] += 1
                elif SINGLE.get(op.name) == "MUFU":
                    computed[op] += root == "MUFU"
                elif not opcode.startswith("IMAD.MOV"):
                    computed[op] += elements
                    floats += elements * (1 + ("FMA" in root)) * (op.name in _FLOATS)
        ratios = sorted(number / own[op] for op, number in counted.items())
        if ratios:
            return max(1, round(ratios[len(ratios) // 2]))
        # Of several products only some instructions name their own line.
        products = sum(times for op, times in own.items() if has(op, DotLike))
        if products:
            return max(1, round(multiplied / products))
        # Fused operations have fewer instructions than elements, so the largest ratio is the truth,
        # unless one operation has the line of what another does: then all together do too little.
        most = max(1, round(max((number / own[op] for op, number in computed.items()), default=1)))
        expected = sum(times for op, times in own.items() if op.name in _FLOATS)
        return max(1, round(floats / expected)) if 0 < floats < _MOST * most * expected else most


_MOST = 0.6
"""The share of a loop's operations that is in every copy of its body."""
_FLOATS = ("arith.addf", "arith.subf", "arith.mulf")
_COUNTED = frozenset(["LDG", "STG", "LDGSTS", "RED", "REDG", "ATOMG", "ATOM"])
_ELEMENTS = {
    **dict.fromkeys(("FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA"), 1),
    **dict.fromkeys(("IADD3", "VIADD", "IMAD", "LOP3"), 1),
    **dict.fromkeys(("HADD2", "HMUL2", "HFMA2", "FADD2", "FMUL2", "FFMA2"), 2),
}
"""Opcode of arithmetic -> how many elements of a thread an instruction computes."""
SINGLE: Mapping[str, str] = {
    **{
        f"arith.{name}": "any"
        for name in ("addf", "subf", "mulf", "addi", "subi", "muli", "andi", "ori", "xori")
    },
    **{f"math.{name}": "MUFU" for name in ("exp", "exp2", "log", "log2")},
}
"""Operation -> the opcode that each element takes once, or none if fused; int64 takes more."""

# How many cycles one warp takes that has a multiprocessor to itself: its instructions one after
# the other, by the stall counts in their control codes, waiting for the scoreboards that they
# name.
#
# Loads take a fixed time each, and copies past the registers are waited for by groups, so what a
# pipelined loop hides is hidden here too.


_CYCLES: Mapping[str, float] = {
    "local load": 45.0,  # of a spilled register, which L1 answers
    "global atomic": 300.0,  # which L2 does
    "shared load": 30.0,
    "shared atomic": 30.0,
    "lanes": 24.0,
}
"""Cycles until a result is available, by the instruction's category."""
_OTHER_CYCLES = 22.0
"""Of special functions, conversions and all others."""
_BARRIER = 25.0
_TENSOR = 32.0


@dataclass
class _Clock:
    """The position of a warp in time."""

    now: float = 0.0
    boards: list[float] = field(default_factory=lambda: [0.0] * 6)
    """When each scoreboard is clear."""
    copied: list[float] = field(default_factory=list)
    """When each group of asynchronous copies has arrived, the oldest first."""
    copying: float = 0.0
    products: list[float] = field(default_factory=list)
    """When each group of products of a warp group is done."""
    multiplying: float = 0.0
    loaded: float = 0.0
    """When the last block of the copy engine has arrived."""

    skipped: float = 0.0
    """Cycles of skipped iterations, which are added to all of these."""


_WATCHED = 8
"""Turns of a loop that are followed; the others take as long as the last of these on average."""
_SETTLED = 6
"""The last turns: where several tiles are on their way, they come to two or three at once."""


class CriticalPath:
    """The path of one warp through a kernel."""

    def __init__(
        self,
        instructions: Sequence[Instruction],
        executions: Executions,
        memory: float,
        macs: float,
    ) -> None:
        """`memory` is a load's cycles, `macs` the 16-bit multiply-adds of an SM in a cycle."""
        self._instructions, self._executions = instructions, executions
        self._memory, self._macs = memory, macs
        self._times = executions.of_each

    def cycles(self) -> float:
        """From the first instruction to the last."""
        clock = _Clock()
        self._walk(0, len(self._instructions), self._executions.loops, 1.0, clock)
        return clock.now + clock.skipped

    def _walk(
        self, start: int, stop: int, loops: Sequence[CodeLoop], came: float, clock: _Clock
    ) -> None:
        by_first = {loop.first: loop for loop in loops}
        number = start
        while number < stop:
            loop = by_first.get(number)
            if loop is None:
                if came and self._times[number] / came >= _OFTEN:
                    self._issue(self._instructions[number], clock)
                number += 1
                continue
            self._turn(loop, came, clock)
            number = loop.last + 1

    def _turn(self, loop: CodeLoop, came: float, clock: _Clock) -> None:
        whole = int(loop.turns) if loop.turns >= 1 else int(loop.turns >= _OFTEN)
        ends = [clock.now + clock.skipped]
        for _ in range(min(whole, _WATCHED)):
            inside = [nested for nested in loop.inside if nested.first > loop.first]
            self._walk(loop.first, loop.last + 1, inside, came * loop.turns, clock)
            ends.append(clock.now + clock.skipped)
        if loop.turns > _WATCHED:
            each = (ends[-1] - ends[-1 - _SETTLED]) / _SETTLED
            clock.skipped += each * (loop.turns - _WATCHED)

    def _issue(self, instruction: Instruction, clock: _Clock) -> None:
        control, root = instruction.control, instruction.opcode.partition(".")[0]
        assert control is not None, "SASS has control codes"
        for board in control.waits_for:
            clock.now = max(clock.now, clock.boards[board])
        if root in ("DEPBAR", "WARPGROUP"):
            self._wait(instruction, clock)
        elif root == "SYNCS" and "TRYWAIT" in instruction.opcode:
            clock.now = max(clock.now, clock.loaded)
        elif root == "BAR":
            clock.now += _BARRIER
        done = clock.now + self._latency(instruction, root, clock)
        if control.write_barrier is not None:
            clock.boards[control.write_barrier] = max(done, clock.boards[control.write_barrier])
        if control.read_barrier is not None:
            read = clock.now + _READ_AFTER
            clock.boards[control.read_barrier] = max(read, clock.boards[control.read_barrier])
        clock.now += max(control.stall_cycles, 1)

    def _latency(self, instruction: Instruction, root: str, clock: _Clock) -> float:
        match instruction.category:
            case "global load":
                return self._memory
            case "async copy" if root == "LDGSTS":
                clock.copying = max(clock.copying, clock.now + self._memory)
            case "async copy" if root == "LDGDEPBAR":
                clock.copied.append(clock.copying)
            case "tma" if root.startswith(("UTMALDG", "UBLKCP")):
                clock.loaded = max(clock.loaded, clock.now + self._memory)
            case "matrix":
                return self._multiply(instruction, clock)
            case _:
                pass
        return _CYCLES.get(instruction.category, _OTHER_CYCLES)

    def _multiply(self, instruction: Instruction, clock: _Clock) -> float:
        product = product_of(instruction.opcode)
        if product is None or not product.asynchronous:
            return _TENSOR
        took = 4 * product.macs / self._macs * product.bits / 16
        begins = max(clock.now, clock.multiplying - _TENSOR)
        clock.multiplying = begins + took + _TENSOR
        if "gsb0" in instruction.operands:
            clock.products.append(clock.multiplying)
        return took

    def _wait(self, instruction: Instruction, clock: _Clock) -> None:
        """`DEPBAR.LE SB0, 0x2`, `WARPGROUP.DEPBAR.LE gsb0, 0x1`: until no more are in flight."""
        if "DEPBAR" not in instruction.opcode:
            return
        allowed = int(instruction.operands[1], 16) if len(instruction.operands) > 1 else 0
        groups = clock.products if instruction.opcode.startswith("WARPGROUP") else clock.copied
        if len(groups) > allowed:
            arrived = groups[: len(groups) - allowed]
            clock.now = max(clock.now, *arrived)
            del groups[: len(arrived)]


_OFTEN = 0.5
"""Code that runs less often than every second time is skipped."""
_READ_AFTER = 12.0
"""Cycles until a store or a load has read its operands."""
