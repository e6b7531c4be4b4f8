"""The costs of a launch's accesses to memory, counted by the compiler's layouts."""
