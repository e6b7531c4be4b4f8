"""Why KernelLab cannot start, said kindly, before Triton's own import fails obscurely."""

from __future__ import annotations

import importlib.util
import sys


def require_triton() -> None:
    """Say kindly why KernelLab cannot start here, before Triton's own import fails obscurely."""
    if sys.platform != "linux":
        raise ImportError(
            f"KernelLab needs Linux, and this is {sys.platform!r}: it drives the Triton compiler, "
            "whose wheels exist for Linux only. On Windows use WSL; on a Mac use a Linux "
            "container (amd64 or arm64); anywhere, use Google Colab. No GPU is needed. The README "
            "has the commands."
        )
    if importlib.util.find_spec("triton") is None:
        raise ImportError(
            "KernelLab needs the Triton compiler, and this Python has none. Install it with a "
            "matching torch: pip install torch==2.13.0 triton==3.7.1. No GPU is needed."
        )


def refuse_interpreter_mode() -> None:
    """With TRITON_INTERPRET=1 Triton replaces its own library by Python functions,
    which no compiler can read.
    """
    import triton.language as tl
    from triton import knobs
    from triton.runtime.jit import JITFunction

    if knobs.runtime.interpret or not isinstance(tl.sum, JITFunction):
        raise ImportError(
            "TRITON_INTERPRET=1 is set, so Triton has replaced its compiler by its own "
            "interpreter. KernelLab has its own interpreter and needs the compiler: unset "
            "TRITON_INTERPRET and restart Python (or the notebook's kernel)."
        )
