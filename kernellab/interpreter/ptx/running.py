"""Runs the instructions of inline assembly."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kernellab.interpreter.ptx.instructions import INSTRUCTIONS, Form, form_of
from kernellab.interpreter.ptx.machine import SPECIAL_REGISTERS, Array, Machine, Memory
from kernellab.interpreter.ptx.parser import Assembly, Instruction, PtxError, Register, parse


@cache
def assembled(text: str) -> tuple[Assembly, tuple[Form, ...]]:
    """The instructions of a text, each known and with modifiers that it may have.

    Raises:
        PtxError: it names the first that is not.
    """
    assembly = parse(text)
    _check_registers(assembly)
    return assembly, tuple(form_of(instruction) for instruction in assembly.instructions)


def run(
    text: str, inputs: Mapping[str, Array], outputs: Mapping[str, int], memory: Memory
) -> list[Array]:
    """Run a text.

    Args:
        inputs: the bits of the registers that are set: "$1", ...
        outputs: widths in bits of the registers that are asked for: "$0", ...

    Returns:
        The bits of the outputs, in order.
    """
    assembly, forms = assembled(text)
    machine = Machine({**assembly.widths, **outputs}, inputs, memory)
    for instruction, form in zip(assembly.instructions, forms):
        step(machine, instruction, form)
    return [machine.bits(Register(name)) for name in outputs]


def step(machine: Machine, instruction: Instruction, form: Form) -> None:
    """Carry out one instruction."""
    machine.guarded_by(instruction)
    INSTRUCTIONS[instruction.name].run(machine, form, instruction.operands)


def _check_registers(assembly: Assembly) -> None:
    """Raise PtxError for a register that is neither an operand, declared nor known."""
    for instruction in assembly.instructions:
        for operand in instruction.operands:
            name = operand.name if isinstance(operand, Register) else "_"
            known = name in assembly.widths or name in SPECIAL_REGISTERS or name[0] in "$_"
            if not known:
                raise PtxError(f"the PTX register {name!r} in {instruction.opcode!r}")
