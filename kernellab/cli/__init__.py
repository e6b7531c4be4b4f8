"""The terminal: `kernellab demo`, `kernellab doctor`, `kernellab compile`."""
