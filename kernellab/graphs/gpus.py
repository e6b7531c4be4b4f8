"""The GPUs that code can be generated for by name, and a context that emulates them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kernellab import triton_api
from kernellab.common.formatting import shown
from kernellab.compiler.targets import parse_target
from kernellab.errors import ArgumentError
from kernellab.launch.torch_cuda import DeviceProperties
from kernellab.records import Target

ROCM = "6.4"
"""The version of ROCm that torch's compiler sees for AMD's GPUs."""

_OTHERS = {
    "h200": {"name": "NVIDIA H200", "total_memory": 141 * 10**9},
}
"""Properties that differ from an architecture's first product (NVIDIA's data sheet of the H200)."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that this machine need not have.

    Attributes:
        name: the name as given.
        target: the target to compile for.
        differing: the properties that differ from the first product of that architecture.
    """

    name: str
    target: Target
    differing: Mapping[str, Any]

    def properties(self) -> DeviceProperties:
        """Return what `torch.cuda.get_device_properties` would."""
        properties = DeviceProperties(self.target)
        vars(properties).update(self.differing)
        return properties

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A context in which torch and Triton see this GPU."""
        from kernellab.torch_api.virtual_gpu import gpu_answers

        driver = triton_api.EmulatedDriver(self.target, {}, _nothing, _nothing, is_torchs=True)
        hip = ROCM if self.target.backend == "hip" else None
        with triton_api.driver_is(driver), gpu_answers(self.properties(), hip):
            yield


def gpu_named(name: Any) -> Gpu:
    """Return the GPU of a name ("h200", "a100", "mi300x") or of a target ("sm_90").

    Raises:
        TargetError: there is no such GPU; the message has the nearest name.
        ArgumentError: `name` is not a str.
    """
    if isinstance(name, Target):
        return Gpu(name.name, name, {})
    if not isinstance(name, str):
        raise ArgumentError(
            f"gpu must be the name of a GPU, got {shown(name)}",
            advice='Write gpu="h200", "a100", "mi300x", or a target such as "sm_90".',
        )
    return Gpu(name, parse_target(name), _OTHERS.get(name.strip().lower(), {}))


def _nothing(*_args: Any) -> Any:
    raise NotImplementedError("nothing can run on an emulated GPU")
