"""torch.compile, opened: a call that is captured, and torch's tracers side by side
(`graph.py`); the report, its call and its file (`report.py`); its kernels, and two reports compared
(`kernels.py`); why it compiled again (`guards.py`); its error against fp64 (`accuracy.py`); the
backend for torch.compile (`backend.py`); what is captured (`captures.py`); the texts of torch's
structured trace (`torch_texts.py`); and the other processes (`processes.py`) with what runs in them
(`jobs.py`, `compare.py`).
"""
