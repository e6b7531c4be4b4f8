"""torch.compile, opened: a call that is captured (`graphing.py`) in a process of its own
(`in_worker.py`), what the report says (`report.py`), its kernels (`generated.py`), the backend for
torch.compile (`backend.py`), and reports as files (`files.py`).
"""
