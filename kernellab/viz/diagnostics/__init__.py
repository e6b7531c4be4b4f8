"""What is said of a kernel, a launch or this machine."""
