"""Our occupancy beside the CUDA driver's, on the GPU of this machine.

For each sample (registers, shared memory, threads) an empty kernel with that many registers is
assembled by ptxas and loaded, and `cuOccupancyMaxActiveBlocksPerMultiprocessor` is asked. Prints a
table, and with `--json FILE` writes the samples; exits with 1 where a number differs.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pandas

from benchmarks.harness import print_report
from kernellab import triton_api
from kernellab.compiler.machine_code.resources import NVIDIA_LIMITS, occupancy, read_nvidia
from kernellab.compiler.records import Resources
from kernellab.compiler.targets import local_target
from kernellab.records import Target

REGISTERS = (24, 32, 40, 64, 96, 128, 168, 255)
SHARED = (0, 1024, 16384, 24592, 49152, 76000, 99328, 166912, 232448)
THREADS = (32, 64, 128, 160, 256, 512, 1024)

_OPT_IN_TO_SHARED_MEMORY = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
_NUM_REGS = 4
"""CU_FUNC_ATTRIBUTE_NUM_REGS."""


class Driver:
    """The CUDA driver, through its C interface; every call that fails raises RuntimeError."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver's."""
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} failed with CUDA error {status}")

    def load(self, cubin: bytes, kernel: str) -> ctypes.c_void_p:
        """The kernel's function."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        return function

    def registers(self, function: ctypes.c_void_p) -> int:
        """Registers per thread, as the driver sees them."""
        value = ctypes.c_int()
        self.call("cuFuncGetAttribute", ctypes.byref(value), _NUM_REGS, function)
        return value.value

    def blocks(self, function: ctypes.c_void_p, threads: int, shared: int) -> int:
        """Blocks of the kernel on one SM at once."""
        value = ctypes.c_int()
        if shared > 48 * 1024:
            self.call("cuFuncSetAttribute", function, _OPT_IN_TO_SHARED_MEMORY, shared)
        self.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ctypes.byref(value),
            function,
            threads,
            ctypes.c_size_t(shared),
        )
        return value.value


def kernel_with_registers(target: Target, registers: int) -> bytes:
    """A cubin whose kernel keeps about `registers` values alive at once:
    loads them all, then stores them all.
    """
    values = max(1, registers - 12)
    loads = [f"ld.volatile.global.u32 %r{i}, [%address+{4 * i}];" for i in range(values)]
    stores = [
        f"st.volatile.global.u32 [%address+{4 * i}], %r{values - 1 - i};" for i in range(values)
    ]
    ptx = "\n".join(
        [
            ".version 8.0",
            f".target sm_{target.arch}",
            ".address_size 64",
            f".visible .entry probe(.param .u64 data) .maxnreg {registers} {{",
            f".reg .b32 %r<{values}>;",
            ".reg .b64 %address;",
            "ld.param.u64 %address, [data];",
            *loads,
            *stores,
            "ret;",
            "}",
        ]
    )
    with tempfile.TemporaryDirectory(prefix="kernellab-") as folder:
        source, cubin = Path(folder, "probe.ptx"), Path(folder, "probe.cubin")
        source.write_text(ptx)
        command = [
            triton_api.nvidia_tool("ptxas"),
            f"--gpu-name=sm_{target.arch}",
            str(source),
            "-o",
            str(cubin),
        ]
        subprocess.run(command, check=True)
        return cubin.read_bytes()


def measure(driver: Driver, target: Target) -> pandas.DataFrame:
    """One row for each sample that the GPU can launch."""
    limits = NVIDIA_LIMITS[target.arch]
    rows = []
    for asked in REGISTERS:
        cubin = kernel_with_registers(target, asked)
        function = driver.load(cubin, "probe")
        registers = driver.registers(function)
        assert read_nvidia(cubin, "probe", 0).registers == registers
        for shared in (size for size in SHARED if size <= limits.shared_per_block):
            for threads in THREADS:
                ours = occupancy(Resources(registers, 0, shared, 0), target, -(-threads // 32))
                rows.append(
                    {
                        "registers": registers,
                        "shared": shared,
                        "threads": threads,
                        "driver": driver.blocks(function, threads, shared),
                        "ours": ours.blocks,
                        "limited by": ", ".join(ours.limited_by),
                    }
                )
    return pandas.DataFrame(rows)


def main() -> None:
    """Compare, print, and exit with 1 where the driver says otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the samples to this file")
    options = parser.parse_args()
    target = local_target()
    if target is None or target.arch not in NVIDIA_LIMITS:
        raise SystemExit(
            "This compares with an NVIDIA GPU of this machine, and there is none that "
            "KernelLab knows."
        )
    table = measure(Driver(), target)
    different = table[table["driver"] != table["ours"]]
    summary = pandas.DataFrame(
        [{"GPU": target.name, "samples": len(table), "equal": len(table) - len(different)}]
    )
    print_report("Occupancy, ours and the driver's", summary)
    if len(different):
        print(different.to_string(index=False))
    if options.json is not None:
        rows = table[["registers", "shared", "threads", "driver"]].to_numpy().tolist()
        columns = ["registers", "shared", "threads", "blocks"]
        record = {"target": target.name, "columns": columns, "rows": rows}
        options.json.write_text(json.dumps(record))
    raise SystemExit(1 if len(different) else 0)


if __name__ == "__main__":
    main()
