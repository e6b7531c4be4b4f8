"""One launch of any kernel: prepared, then carried out by the interpreter or by the GPU."""
