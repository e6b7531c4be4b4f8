"""Torch's private names, and nobody else's: what torch is emulated through (`emulation.py`), the
kernels that Inductor generates (`inductor.py`, `generated_modules.py`), and torch.compile, opened:
a GPU that is not there (`virtual_gpu.py`), decompositions that are told of it
(`gpu_decompositions.py`), attention as it has it (`gpu_attention.py`), graphs as records
(`fx_graphs.py`), Inductor watched while it lowers one (`lowering.py`), Dynamo's events
(`events.py`), one capture from end to end (`capturing.py`), lazy tensors (`lazy_tensors.py`).
"""
