"""What one program of a compiled kernel takes, read from the compiler's output."""

from __future__ import annotations

import re

from kernellab.compiler.cubin import barrier_count
from kernellab.compiler.sass import run_on_cubin
from kernellab.errors import CompileError
from kernellab.records import Resources


def read_nvidia(
    cubin: bytes, kernel: str, shared_bytes: int, tensor_memory_columns: int = 0
) -> Resources:
    """Resources of a kernel in a cubin, as `cuobjdump -res-usage` reports them.

    Args:
        cubin: the binary.
        kernel: the symbol of its entry.
        shared_bytes: what a launch asks for. All of a Triton kernel's shared memory is asked for at launch; the 1024 bytes
            that cuobjdump reports besides, from sm_90 on, are the driver's own and stand outside the kernel's limit.
        tensor_memory_columns: what the kernel allocates of Blackwell's tensor memory; the cubin does not say it.

    Raises:
        CompileError: the cubin cannot be read, or the kernel is not in it.
    """
    report = run_on_cubin("cuobjdump", ["-res-usage"], cubin)
    line = re.search(rf"Function {re.escape(kernel)}:\s*\n\s*(?P<usage>REG:.*)", report)
    if line is None:
        raise CompileError(f"cuobjdump reports no function {kernel!r}: {report.strip()!r}")
    usage = {name: int(value) for name, value in re.findall(r"(\w+):(\d+)", line["usage"])}
    # ptxas keeps spilled registers and local arrays in the stack frame; LOCAL is what older ones kept elsewhere.
    return Resources(
        registers=usage["REG"],
        spills=usage["STACK"] + usage["LOCAL"],
        shared_bytes=shared_bytes,
        stack_bytes=usage["STACK"],
        static_shared_bytes=max(0, usage["SHARED"] - _driver_bytes(usage["SHARED"])),
        barriers=barrier_count(cubin, kernel),
        tensor_memory_columns=tensor_memory_columns,
    )


def _driver_bytes(shared: int) -> int:
    """The part of cuobjdump's SHARED that is the driver's own; older GPUs report none."""
    driver = 1024
    return driver if shared >= driver else 0


def read_amd(assembly: str, shared_bytes: int) -> Resources:
    """Resources of a kernel in AMD assembly, from the metadata that its loader reads (`amdhsa.kernels`).

    Raises:
        CompileError: the assembly has no such metadata.
    """
    start = assembly.find("amdhsa.kernels:")
    metadata = {
        name: int(value)
        for name, value in re.findall(r"^\s*(?:- )?\.(\w+):\s+(\d+)\s*$", assembly[start:], re.M)
    }
    try:
        return Resources(
            registers=metadata["vgpr_count"],
            # Scratch memory, as on NVIDIA: the count of spilled registers says more than lands there.
            spills=metadata["private_segment_fixed_size"],
            shared_bytes=shared_bytes,
            stack_bytes=metadata["private_segment_fixed_size"],
            static_shared_bytes=metadata.get("group_segment_fixed_size", 0),
            scalar_registers=metadata["sgpr_count"],
        )
    except KeyError as error:
        raise CompileError(f"the assembly's metadata has no {error}") from error
