"""Large packages, imported whole: Ctrl-C waits, as a cut-off import stays broken."""

from __future__ import annotations

from kernellab.common.system import interrupted_afterwards, translated_system_faults

with translated_system_faults("pandas cannot be imported"), interrupted_afterwards():
    import pandas as pandas
