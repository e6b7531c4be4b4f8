"""What `torch.cuda.get_device_properties` says of a target."""

from __future__ import annotations

from typing import Any

from kernellab import triton_api
from kernellab.compiler.machine_code.occupancy import AMD_LIMITS, NVIDIA_LIMITS
from kernellab.compiler.targets import (
    cache_size,
    device_name,
    memory_size,
    multiprocessor_count,
    shared_limit,
)
from kernellab.records import Target

_STATIC_SHARED = 48 * 1024
"""What a block may have without asking for more (CUDA C++ Programming Guide, "Shared Memory")."""

_MOST_THREADS = 1024
"""Of one block (CUDA C++ Programming Guide) or workgroup (AMDGPU backend: flat workgroup size)."""


class DeviceProperties:
    """As torch's, with the attributes that are known of the target."""

    def __init__(self, target: Target) -> None:
        """Gather what is known.

        Args:
            target: the GPU.
        """
        self._target = target
        self.name = device_name(target)
        self.major, self.minor = triton_api.compute_capability(target)
        self.warp_size = triton_api.gpu_target(target).warp_size
        self.max_threads_per_block = _MOST_THREADS
        self.is_integrated = self.is_multi_gpu_board = 0
        self.gcnArchName = self.name if target.backend == "cuda" else _with_features(target)
        known = {
            "total_memory": memory_size(target),
            "multi_processor_count": multiprocessor_count(target),
            "L2_cache_size": cache_size(target),
            **_limits(target),
        }
        vars(self).update({name: value for name, value in known.items() if value is not None})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{name!r} of {self._target} is not known for the GPU that is emulated"
        )

    def __repr__(self) -> str:
        known = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        said = ", ".join(f"{name}={value!r}" for name, value in known.items())
        return f"_CudaDeviceProperties({said})"


def _limits(target: Target) -> dict[str, int | None]:
    if target.arch in NVIDIA_LIMITS:
        sm = NVIDIA_LIMITS[target.arch]
        return {
            "regs_per_multiprocessor": sm.registers,
            "max_threads_per_multi_processor": sm.warps * 32,
            "shared_memory_per_block": _STATIC_SHARED,
            "shared_memory_per_block_optin": shared_limit(target),
            "shared_memory_per_multiprocessor": sm.shared,
        }
    if target.arch in AMD_LIMITS:
        unit = AMD_LIMITS[target.arch]
        lanes = triton_api.gpu_target(target).warp_size
        return {
            "max_threads_per_multi_processor": unit.simds * unit.waves_per_simd * lanes,
            "shared_memory_per_block": shared_limit(target),
            "shared_memory_per_multiprocessor": unit.lds,
        }
    return {}


def _with_features(target: Target) -> str:
    """As HIP names it: CDNA 2 to 4 with error correction on, and no retried page faults."""
    return f"{target.arch}:sramecc+:xnack-" if target.arch.startswith("gfx9") else target.arch
