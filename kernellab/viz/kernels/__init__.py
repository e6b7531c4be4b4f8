"""The cards of a kernel: a launch, a compilation, what a program takes."""
