"""The other end of `harness.Server`: python -m benchmarks.server module:function

Pickled requests come on standard input; pickled (worked, answer) pairs go to standard output.
What the function prints goes to standard error.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback


def main() -> None:
    """Answer requests until there are no more."""
    module, _, name = sys.argv[1].partition(":")
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function = getattr(importlib.import_module(module), name)
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        try:
            reply = (True, function(request))
        except Exception:
            reply = (False, traceback.format_exc())
        pickle.dump(reply, answers)
        answers.flush()


if __name__ == "__main__":
    main()
