"""What a launch costs: accesses to memory, counted without a GPU; what Nsight Compute measured."""
