"""`kernellab.check`: a launch with every detector on, and the faults that they find."""
