"""`python -m kernellab`: the same as the command `kernellab`."""

import os
import sys

# Python looks for modules in the current folder first, which may be someone else's.
if not sys.flags.safe_path and sys.path[0] != os.path.dirname(os.path.dirname(__file__)):
    del sys.path[0]

from kernellab.cli.main import main

sys.exit(main())
