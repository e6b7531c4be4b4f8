"""Logs of torch.compile from elsewhere, read as reports: the structured trace that `TORCH_TRACE`
writes (`entries.py`, `traces.py`), the folders of `TORCH_COMPILE_DEBUG` (`debug_folders.py`), and
which of them a folder is (`folders.py`). Graphs (`printed_graphs.py`) and generated code
(`output_code.py`) are read as text: nothing of a log is executed.
"""
