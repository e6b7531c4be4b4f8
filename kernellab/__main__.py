"""`python -m kernellab`: the same as the command `kernellab`."""

import sys

from kernellab.cli.main import main

sys.exit(main())
