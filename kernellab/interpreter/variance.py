"""Which values differ from program to program.

A value that does not is computed once for a whole batch, and a branch on it is an ordinary branch.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, Region, SSAValue

from kernellab.ir import cf, scf, tt

_ALWAYS = (tt.GetProgramIdOp, tt.AtomicRMWOp, tt.AtomicCASOp, tt.CallOp)


def varying_values(function: tt.FuncOp) -> set[SSAValue]:
    """The values of `function` that may differ from program to program."""
    analysis = _Analysis()
    while analysis.changed:
        analysis.changed = False
        analysis.region(function.body)
    return analysis.varying


class _Analysis:
    """Spreads variance along data flow, until nothing changes any more."""

    def __init__(self) -> None:
        self.varying: set[SSAValue] = set()
        self.changed = True

    def region(self, region: Region) -> None:
        for block in region.blocks:
            for op in block.ops:
                self.operation(op)

    def operation(self, op: Operation) -> None:
        match op:
            case scf.ForOp():
                self._for(op)
            case scf.IfOp():
                self._if(op)
            case scf.WhileOp():
                self._while(op)
            case cf.BranchOp() | cf.ConditionalBranchOp():
                self._branch(op)
            case _:
                for region in op.regions:
                    self.region(region)
                if isinstance(op, _ALWAYS) or any(o in self.varying for o in op.operands):
                    self._mark(op.results)

    def _for(self, op: scf.ForOp) -> None:
        variable, *carried = op.block.args
        divergent = self._any((op.lower, op.upper, op.step))
        if divergent:
            self._mark([variable, *carried])
        self._flow(op.initial, carried)
        self.region(op.body)
        self._flow(_terminator(op.block).operands, carried)
        self._flow(carried, op.results)

    def _if(self, op: scf.IfOp) -> None:
        for region in op.regions:
            self.region(region)
            if region.blocks:
                self._flow(_terminator(region.block).operands, op.results)
        if op.condition in self.varying:
            self._mark(op.results)

    def _while(self, op: scf.WhileOp) -> None:
        before, after = op.before.block, op.after.block
        self._flow(op.initial, before.args)
        self.region(op.before)
        condition, *passed = _terminator(before).operands
        self._flow(passed, after.args)
        self.region(op.after)
        self._flow(_terminator(after).operands, before.args)
        if condition in self.varying:
            self._mark([*before.args, *after.args])
        self._flow(after.args, op.results)

    def _branch(self, op: cf.BranchOp | cf.ConditionalBranchOp) -> None:
        # Programs may take different ways to a block, so what it is given varies.
        for block in op.successors:
            self._mark(block.args)

    def _any(self, values: tuple[SSAValue, ...]) -> bool:
        return any(value in self.varying for value in values)

    def _flow(self, sources: object, targets: object) -> None:
        for source, target in zip(sources, targets):  # type: ignore[call-overload]
            if source in self.varying:
                self._mark([target])

    def _mark(self, values: object) -> None:
        for value in values:  # type: ignore[attr-defined]
            if value not in self.varying:
                self.varying.add(value)
                self.changed = True


def _terminator(block: Block) -> Operation:
    assert block.last_op is not None
    return block.last_op
