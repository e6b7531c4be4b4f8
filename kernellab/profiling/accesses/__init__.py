"""What the accesses of a launch to memory cost:
counted on the interpreter, by the layouts that the compiler chose.
"""
