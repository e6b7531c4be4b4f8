"""What a launch's accesses to memory cost, counted by the compiler's layouts."""
