"""The CPU engine: Triton's own IR, lowered to batched NumPy code that carries the kernel's file,
lines and names.
"""

from kernellab.interpreter.execution.faults import CollectedFaults
from kernellab.interpreter.execution.launcher import Instrument, launch

__all__ = ["CollectedFaults", "Instrument", "launch"]
