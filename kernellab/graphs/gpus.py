"""The GPUs that code is generated for by name, and a context in which they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from kernellab import triton_api
from kernellab.compiler.targets import parse_target
from kernellab.errors import ArgumentError
from kernellab.launch.torch_cuda.properties import DeviceProperties
from kernellab.records import Target

ROCM = "6.4"
"""The version that torch's compiler is told of, for AMD's GPUs."""

_OTHERS = {
    "h200": {"name": "NVIDIA H200", "total_memory": 141 * 10**9},
}
"""What is not that of the first product of an architecture (NVIDIA's data sheet of the H200)."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that need not be there: its name as given, its target, and what differs from the
    usual product of that architecture.
    """

    name: str
    target: Target
    differing: Mapping[str, Any]

    def properties(self) -> DeviceProperties:
        """As `torch.cuda.get_device_properties` gives them."""
        properties = DeviceProperties(self.target)
        vars(properties).update(self.differing)
        return properties

    def answering(self) -> Callable[[], AbstractContextManager[None]]:
        """What enters a context in which torch's compiler and Triton's driver answer for it."""
        return lambda: _answering(self)


def gpu_named(name: Any) -> Gpu:
    """The GPU of a name ("h200", "a100", "mi300x") or of a target ("sm_90").

    Raises:
        TargetError: nothing is called so; the nearest name is said.
        ArgumentError: it is no name.
    """
    if isinstance(name, Target):
        return Gpu(name.name, name, {})
    if not isinstance(name, str):
        raise ArgumentError(
            f"gpu should be the name of a GPU, and it is of type {type(name).__name__}",
            advice='Give "h200", "a100", "mi300x", or a target such as "sm_90".',
        )
    return Gpu(name, parse_target(name), _OTHERS.get(name.strip().lower(), {}))


def _nothing(*_args: Any) -> Any:
    raise NotImplementedError("nothing runs on a GPU that is not there")


@contextmanager
def _answering(gpu: Gpu) -> Iterator[None]:
    from kernellab.torch_api.virtual_gpu import gpu_answers

    driver = triton_api.EmulatedDriver(gpu.target, {}, _nothing, _nothing, is_torchs=True)
    hip = ROCM if gpu.target.backend == "hip" else None
    with triton_api.driver_is(driver), gpu_answers(gpu.properties(), hip):
        yield
