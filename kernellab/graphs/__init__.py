"""torch.compile, opened: a call that is captured (`graphing.py`) in a process of its own
(`in_worker.py`), what the report says (`report.py`), its kernels (`generated.py`), the backend for
torch.compile (`backend.py`), reports as files (`files.py`), logs of others (`logs/`), and torch's
tracers side by side (`tracers.py`, `in_tracers.py`).
"""
