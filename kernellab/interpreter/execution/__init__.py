"""A launch on the CPU: programs in batches, their order, their faults; and code for debuggers."""
