"""Shadow memory: a second number beside each element of values and of storages."""
