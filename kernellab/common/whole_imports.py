"""Large packages, imported whole: Ctrl-C waits until the first import is done, since a package
whose import was cut off stays broken in this process.
"""

from __future__ import annotations

from kernellab.common.interrupts import interrupted_afterwards
from kernellab.common.system_faults import translated_system_faults

with translated_system_faults("pandas cannot be imported"), interrupted_afterwards():
    import pandas as pandas
