"""What CUDA says of a kernel that died: from then on the process cannot use the GPU."""

from __future__ import annotations

import re

_DEAD_CONTEXT = re.compile(
    r"illegal memory access|illegal instruction|misaligned address|unspecified launch failure|"
    r"device-side assert|hardware stack error|invalid program counter|CUDA_ERROR_(?:LAUNCH|ILLEGAL|"
    r"ASSERT|MISALIGNED)",
    re.IGNORECASE,
)


def gpu_fault(error: BaseException) -> str | None:
    """What a launch died of on the GPU, in CUDA's words; None where it is another error."""
    match = _DEAD_CONTEXT.search(str(error))
    return None if match is None else match[0].lower()
