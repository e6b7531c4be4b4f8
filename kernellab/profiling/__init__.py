"""The costs of a launch: counted accesses to memory; Nsight Compute's measurements."""
