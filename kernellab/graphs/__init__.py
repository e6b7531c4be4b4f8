"""torch.compile, opened: a call that is captured (`graphing.py`), what the report says
(`report.py`), its kernels (`generated.py`), its call repeated to compare and time it (`calls.py`),
the backend for torch.compile (`backend.py`), reports as files (`files.py`), logs of others
(`logs/`), torch's tracers side by side (`tracers.py`), and what runs in other processes
(`worker/`).
"""
