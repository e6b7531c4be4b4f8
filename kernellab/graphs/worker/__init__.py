"""What runs in the processes that capture, compare, time and trace for a report: the user's process
sends them a pickled function, and none of their emulated GPUs and changes of torch reach it.
"""
