"""Torch's private names, and no one else's: what torch is emulated through (`emulation.py`,
`autocast_kernels.py`), what it gets of a GPU that is not there (`gpu_answers.py`), the kernels
that Inductor generates (`inductor.py`, `generated_modules.py`), and torch.compile, opened: that
GPU (`virtual_gpu.py`), decompositions that see it (`gpu_decompositions.py`), attention as it has
it (`gpu_attention.py`), graphs as records (`fx_graphs.py`), Inductor watched while it lowers one
(`lowering.py`), Dynamo's events (`events.py`), one capture from end to end (`capturing.py`), lazy
tensors (`lazy_tensors.py`).
"""
