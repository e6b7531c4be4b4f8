"""torch.compile, opened: a call that is captured, and torch's tracers side by side
(`graph.py`); the report, its call and its file (`report.py`); its kernels (`kernels.py`), why it
compiled again (`guards.py`), two reports compared (`differences.py`), its error against fp64
(`accuracy.py`), and graphs as scripts (`runnable.py`); the backend for torch.compile
(`backend.py`); what is captured (`captures.py`); logs of others (`torch_logs.py`), parsed
(`torch_texts.py`); and the other processes (`processes.py`) with what runs in them (`jobs.py`,
`compare.py`).
"""
