"""Torch's private names, and nobody else's: what torch is emulated through (`emulation.py`), and
the kernels that Inductor generates (`inductor.py`).
"""
