"""PTX text, run on NumPy arrays: what inline assembly in a kernel computes.

`parser` reads the text, `kinds` knows PTX's types, `instructions` says what each instruction
computes, `machine` runs them. The reference is NVIDIA's PTX ISA.
"""
