"""What one program of a compiled kernel takes, read from the compiler's output."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from kernellab import triton_api
from kernellab.compiler.machine_code.cubin import barrier_count
from kernellab.compiler.machine_code.sass import run_on_cubin
from kernellab.errors import CompileError
from kernellab.records import Resources, Target

SPILLS = re.compile(r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
"""How `ptxas -v` says what a function spills."""


def resource_reader(
    compiled: triton_api.CompiledKernel, target: Target
) -> Callable[[], Resources] | None:
    """Reads the resources of what Triton compiled: from the cubin, or from AMD's assembly; None
    where there is no machine code.
    """
    cubin, assembly = compiled.stages.get("cubin"), compiled.stages.get("amdgcn")
    if isinstance(cubin, bytes):
        return functools.partial(
            read_nvidia,
            cubin,
            str(compiled.metadata["name"]),
            int(compiled.metadata["shared"]),
            int(compiled.metadata.get("tmem_size") or 0),
            functools.partial(_assembler_log, compiled, target),
        )
    if assembly is None:
        return None
    return functools.partial(read_amd, str(assembly), int(compiled.metadata["shared"]))


def _assembler_log(compiled: triton_api.CompiledKernel, target: Target) -> str | None:
    """What `ptxas -v` printed for a kernel. It runs again if its output was not recorded;
    None where it has nothing to read, or refuses it.
    """
    ptx = compiled.stages.get("ptx")
    if compiled.assembler_log is not None or not isinstance(ptx, str):
        return compiled.assembler_log
    from kernellab.triton_api import analyses

    try:
        return analyses.assembler_log(ptx, target, compiled.metadata)
    except analyses.PTXASError:
        return None


def read_nvidia(
    cubin: bytes,
    kernel: str,
    shared_bytes: int,
    tensor_memory_columns: int = 0,
    assembler_log: Callable[[], str | None] = lambda: None,
) -> Resources:
    """Resources of a kernel in a cubin, as `cuobjdump -res-usage` reports them.

    Args:
        cubin: the binary.
        kernel: the symbol of its entry.
        shared_bytes: what a launch asks for. All of a Triton kernel's shared memory is asked for at
            launch; the 1024 bytes that cuobjdump reports besides, from sm_90 on, belong to the
            driver and do not count toward the kernel's limit.
        tensor_memory_columns: what the kernel allocates of Blackwell's tensor memory; the cubin
            does not say it.
        assembler_log: returns what `ptxas -v` printed, or None where that is not known. It is
            called only if there is a stack, since the cubin does not distinguish spilled registers
            from local arrays and the arguments of calls.

    Raises:
        CompileError: the cubin cannot be read, or the kernel is not in it.
    """
    report = run_on_cubin("cuobjdump", ["-res-usage"], cubin)
    line = re.search(rf"Function {re.escape(kernel)}:\s*\n\s*(?P<usage>REG:.*)", report)
    if line is None:
        raise CompileError(f"cuobjdump reports no function {kernel!r}: {report.strip()!r}")
    usage = {name: int(value) for name, value in re.findall(r"(\w+):(\d+)", line["usage"])}
    # LOCAL is what older assemblers kept elsewhere.
    stores, loads = _spilled(report, usage["STACK"] + usage["LOCAL"], assembler_log)
    return Resources(
        registers=usage["REG"],
        spills=stores,
        spill_loads=loads,
        shared_bytes=shared_bytes,
        stack_bytes=usage["STACK"],
        static_shared_bytes=max(0, usage["SHARED"] - _driver_bytes(usage["SHARED"])),
        barriers=barrier_count(cubin, kernel),
        tensor_memory_columns=tensor_memory_columns,
    )


def _spilled(
    report: str, stack_bytes: int, assembler_log: Callable[[], str | None]
) -> tuple[int, int]:
    """Bytes that spilling stores and loads, of the kernel and of the functions that it calls."""
    if not any(int(size) for size in re.findall(r"\b(?:STACK|LOCAL):(\d+)", report)):
        return 0, 0
    spills = list(SPILLS.finditer(assembler_log() or ""))
    if not spills:
        return stack_bytes, 0
    return sum(int(spill["stores"]) for spill in spills), sum(
        int(spill["loads"]) for spill in spills
    )


def _driver_bytes(shared: int) -> int:
    """The part of cuobjdump's SHARED that is the driver's own; older GPUs report none."""
    driver = 1024
    return driver if shared >= driver else 0


def read_amd(assembly: str, shared_bytes: int) -> Resources:
    """Resources of a kernel in AMD assembly, from the metadata that its loader reads
    (`amdhsa.kernels`).

    Raises:
        CompileError: the assembly has no such metadata.
    """
    start = assembly.find("amdhsa.kernels:")
    metadata = {
        name: int(value)
        for name, value in re.findall(r"^\s*(?:- )?\.(\w+):\s+(\d+)\s*$", assembly[start:], re.M)
    }
    try:
        registers, scratch = metadata["vgpr_count"], metadata["private_segment_fixed_size"]
        return Resources(
            registers=registers,
            # The count of spilled registers says more than lands in scratch memory:
            # some go to other registers.
            spills=scratch if metadata["vgpr_spill_count"] else 0,
            shared_bytes=shared_bytes,
            stack_bytes=scratch,
            static_shared_bytes=metadata.get("group_segment_fixed_size", 0),
            scalar_registers=metadata["sgpr_count"],
        )
    except KeyError as error:
        raise CompileError(f"the assembly's metadata has no {error}") from error
