"""What can be found out about a kernel from the modules that the compiler left:
one file per subject.
"""
