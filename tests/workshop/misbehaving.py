"""Functions for a process that answers, as a class's folder could make them; quick to import."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from kernellab.common import processes


def left(folder: Path) -> list[int]:
    """The processes that `leaves_processes` started."""
    return [int(file.read_text()) for file in folder.glob("*[!t]")]


def flood() -> bytes:
    os.write(1, b"x" * 10_000_000)
    os.write(2, b"x" * 10_000_000)
    return b"answer"


def forges_on_stdout() -> bytes:
    print(json.dumps({"grades": [], "problems": []}))
    return b"answer"


def leaves_processes(folder: str) -> bytes:
    """A child, one in a session of its own, an orphan, and one that ignores signals."""
    for how in ("child", "session", "orphan", "deaf"):
        if os.fork() == 0:
            if how != "child":
                os.setsid()
            if how == "orphan" and os.fork():
                os._exit(0)
            if how == "deaf":
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
            Path(folder, f"{how}.part").write_text(str(os.getpid()))
            Path(folder, f"{how}.part").rename(Path(folder, how))
            time.sleep(100)
            os._exit(0)
    while len(left(Path(folder))) < 4:
        time.sleep(0.01)
    return b"answer"


def leaves_processes_without_end(folder: str) -> bytes:
    leaves_processes(folder)
    time.sleep(100)
    return b""


def sleeps() -> bytes:
    time.sleep(100)
    return b""


def answers_too_much() -> bytes:
    return b"x" * (processes.MOST_ANSWERED + 1)


def exits() -> bytes:
    os._exit(7)


def kills_its_group() -> bytes:
    os.killpg(0, 9)
    return b""


def raises() -> bytes:
    raise SystemExit("no\n" * 10_000)


class Harm:
    """What ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.abort, ()


def answers_an_object() -> Harm:
    return Harm()
