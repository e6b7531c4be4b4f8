"""Torch's private names, and no one else's: what torch is emulated through (`emulation.py`,
autocast included), the kernels that Inductor generates (`inductor.py`, which imports nothing of
Inductor; `generated_code.py`), and torch.compile, opened: a GPU that does not exist, as it sees it
(`virtual_gpu.py`), graphs as records (`fx_graphs.py`), Inductor watched while it lowers one graph
(`lowering.py`), one capture from end to end (`capture.py`), Dynamo's events and lazy tensors
(`tracers.py`).
"""
