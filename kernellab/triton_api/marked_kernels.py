"""Kernels in which Proton's operations read the clock: compiled through Proton's passes, and
launched with memory for what they note.

Proton's passes are in the backend's pipeline where the backend puts them, as with a session of
Proton; the session, its reader and its files are not used: what a launch recorded is a tensor in
the format of `ReadingMemory`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from triton import knobs
from triton._C import libtriton
from triton.runtime import _allocation

from kernellab.common.patches import replaced
from kernellab.common.system import temporary_folder
from kernellab.errors import UnsupportedOperation
from kernellab.records import Specialization, Target
from kernellab.triton_api.compiling import compile_natively
from kernellab.triton_api.targets import backend_for

ALIGNMENT = 128
BYTES = 8
"""Of one reading: a word that says which mark it was, and the low word of the clock."""
HEADER_WORDS = 10
"""Of a program, before a count for each warp: a magic number, the program's number, that of its
multiprocessor, the readings' bytes, and three times of 64 bits, in ns: when it began, before and
after it wrote the header."""
MAGIC = 0xDEADBEEF
_NAME_BIT = 23
"""Where the number of a pair of marks begins in a reading's first word; an end has bit 31."""


@dataclass(frozen=True)
class ReadingMemory:
    """Where a program's warps note the clock.

    The newest readings are kept: a warp that has more goes on at the beginning of its part.
    """

    readings: int
    """How many fit for each warp, a power of two."""
    warps: int
    """Of a program, those of its partitions too."""
    noting: tuple[int, ...] = ()
    """The warps that note it, ascending; none stands for all."""
    place: Literal["global", "shared"] = "global"
    """Shared memory is copied to global memory at the program's end."""

    @property
    def noted(self) -> tuple[int, ...]:
        """The warps of which there are readings."""
        return self.noting or tuple(range(self.warps))

    @property
    def bytes(self) -> int:
        """Of all warps of one program."""
        return self.readings * BYTES * len(self.noted)


def compile_marked(
    kernel: Any,
    specialization: Specialization,
    target: Target,
    options: Mapping[str, Any],
    ttgir: str,
    memory: ReadingMemory,
) -> Any:
    """Triton's own CompiledKernel of a kernel whose TTGIR is another: one with marks. Nothing of it
    stays in Triton's cache.

    Raises:
        CompileError: the compiler refused it.
        UnsupportedOperation: this Triton, or the target, has no passes of Proton.
    """
    _check_supported(target)
    key = hashlib.sha256(f"{ttgir}\n{memory}".encode()).hexdigest()
    with temporary_folder() as folder, knobs.cache.scope(), _passes_of_proton(target, memory):
        file = Path(folder, f"{key}.ttgir")
        file.write_text(ttgir, encoding="utf-8")
        knobs.cache.dir = folder
        all_options = {**options, "ir_override": str(file)}
        return compile_natively(kernel, specialization, target, all_options)


def _check_supported(target: Target) -> None:
    if target.backend != "cuda":
        raise UnsupportedOperation(
            f"cycles by line are measured on NVIDIA's GPUs, and {target} is another vendor's"
        )
    if not hasattr(libtriton, "proton"):
        raise UnsupportedOperation(
            "this build of Triton has no Proton, whose passes read the clock in kernels",
            advice="Install Triton from its wheel.",
        )


_one_at_a_time = threading.Lock()
"""The passes are put into the backend's class."""


@contextmanager
def _passes_of_proton(target: Target, memory: ReadingMemory) -> Iterator[None]:
    """While active, this target's backend runs Proton's passes."""
    backend, passes = type(backend_for(target)), _Passes(memory)
    with _one_at_a_time:
        if hasattr(backend, "instrumentation"):  # up to Triton 3.8
            with replaced(backend, instrumentation=passes):
                yield
        else:
            from triton import _instrumentation

            callbacks = {**_instrumentation._callbacks, **passes.callbacks()}
            with replaced(_instrumentation, _callbacks=callbacks):
                yield


@dataclass(frozen=True)
class _Passes:
    """What a backend asks for where it lets others add to its pipeline."""

    memory: ReadingMemory

    def load_dialects(self, context: Any) -> None:
        libtriton.proton.load_dialects(context)

    def callbacks(self) -> Mapping[tuple[str, str], Callable[..., None]]:
        """The passes as Triton 3.9 has them: (point in the pipeline, backend) -> function."""
        points = {
            "load-dialects": self.load_dialects,
            "ttgpuir-to-llvmir": lambda passes: self._add("ttgpuir_to_llvmir", passes),
            "llvmir-to-llvm": lambda passes: self._add("llvmir_to_llvm", passes),
        }
        return {(point, "nvidia"): callback for point, callback in points.items()}

    def patch(self, stage: str, passes: Any, context: Any) -> None:
        self.load_dialects(context)
        self._add(stage, passes)

    def _add(self, stage: str, passes: Any) -> None:
        proton, noting = libtriton.proton, self.memory.noting
        if stage == "ttgpuir_to_llvmir":
            proton.add_convert_proton_to_protongpu(
                passes,
                proton.METRIC_TYPE.CYCLE,
                getattr(proton.SAMPLING_STRATEGY, "SELECTIVE" if noting else "NONE"),
                ",".join(map(str, noting)),
                proton.GRANULARITY.WARP,
                proton.BUFFER_STRATEGY.CIRCULAR,
                getattr(proton.BUFFER_TYPE, self.memory.place.upper()),
                self.memory.bytes,
                _MOST_SHARED,
                1,
                ALIGNMENT,
                False,  # 32 bits of the clock: a program of 2 seconds goes round once
            )
            libtriton.passes.common.add_cse(passes)
            proton.add_allocate_proton_shared_memory(passes)
        elif stage == "llvmir_to_llvm":
            if hasattr(proton, "add_allocate_proton_global_scratch_buffer"):  # up to Triton 3.7
                proton.add_allocate_proton_global_scratch_buffer(passes)
            proton.add_convert_proton_nvidia_gpu_to_llvm(passes)


_MOST_SHARED = 227 * 1024
"""The most shared memory of a program on sm_90, of which Proton takes a part."""


def scratch_bytes(compiled: Any) -> int:
    """What one program of a marked kernel notes, header and all."""
    return int(compiled.metadata.profile_scratch_size)


def launch_marked(
    compiled: Any, grid: Sequence[int], values: Sequence[Any], allocate: Callable[[int], Any]
) -> None:
    """Launch a marked kernel on the current device and stream.

    Args:
        compiled: Triton's CompiledKernel.
        grid: three sizes.
        values: the kernel's arguments, all of them, in order.
        allocate: gives memory on the device, of so many bytes.
    """
    given = _allocation._profile_allocator.get()
    _allocation.set_profile_allocator(lambda size, _alignment, _stream: allocate(size))
    try:
        launch_compiled(compiled, grid, values)
    finally:
        _allocation.set_profile_allocator(given)


def launch_compiled(compiled: Any, grid: Sequence[int], values: Sequence[Any]) -> None:
    """Launch a CompiledKernel of Triton's on the current device and stream."""
    compiled[tuple(grid)](*values)


def mark_of(words: Any) -> Any:
    """The numbers of the marks in readings' first words, an array of unsigned 32 bits."""
    return ((words >> _NAME_BIT) & 0xFF) * 2 + (words >> 31)
