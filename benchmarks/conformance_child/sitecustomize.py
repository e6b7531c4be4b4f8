"""Python reads this when it starts, if its folder is on PYTHONPATH:
some of Triton's tests start a Python of their own.

Those meet the interpreter in the mode of the test that started them.
"""

import os

from benchmarks.conformance_modes import MODE_VARIABLE, enter

if MODE_VARIABLE in os.environ:
    enter(os.environ[MODE_VARIABLE])
