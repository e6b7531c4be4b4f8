"""Large packages, imported whole: Ctrl-C waits until the first import is done, since a package
whose import was cut off stays broken in this process.
"""

from __future__ import annotations

from kernellab.common.system import interrupted_afterwards, translated_system_faults

with translated_system_faults("pandas cannot be imported"), interrupted_afterwards():
    import pandas as pandas
