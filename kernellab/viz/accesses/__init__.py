"""What accesses to memory cost."""
