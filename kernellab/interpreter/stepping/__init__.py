"""Code for stepping: one program at a time, helper functions called,
the kernel's own names in the locals of every frame.
"""
