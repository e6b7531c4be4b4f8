"""What is said of a kernel, a launch or this machine: checks, diagnoses, single findings."""
