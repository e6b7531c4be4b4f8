"""Logs of torch.compile for the tests, made by a real run and without the machine's paths.

`python -m tests.support.torch_logs FOLDER` compiles `branching`, on the GPU where there is one, and
writes trace.log, what `TORCH_TRACE` logged.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODEL = """
import torch


def branching(x, w):
    y = torch.sin(x @ w) + 1
    if y.sum() > 0:
        y = y * 2
    return y.relu().softmax(-1)


device = "cuda" if torch.cuda.is_available() else "cpu"
compiled = torch.compile(branching)
w = torch.rand(32, 48, device=device, requires_grad=True)
compiled(torch.rand(16, 32, device=device), w).sum().backward()
compiled(torch.rand(24, 32, device=device), w)
"""

FILE = "/home/someone/branching.py"

_LEFT_OUT = (
    "aotautograd_cache_", "bwd_compilation_metrics", "describe_", "fx_graph_cache_", "guard_added",
    "backward_prologue", "backward_epilogue", "compiled_f", "runtime_wrapper",
    "torch._functorch.config", "aot_forward_graph_fw_metadata",
)  # fmt: skip
"""Entries that nothing of a report is made of."""

_PREFIX = "V1123 02:49:28.000000 7 torch/_logging/structured.py:28]"

_EVENTS = 3
"""Entries of torch's timeline that are kept: real logs are full of them."""


def entry(metadata: dict[str, Any], text: str | None = None) -> str:
    if text is None:
        return f"{_PREFIX} {json.dumps(metadata)}\n"
    said = {**metadata, "has_payload": _checksum(text)}
    lines = "".join(f"\t{line}\n" for line in text.split("\n"))
    return f"{_PREFIX} {json.dumps(said)}\n{lines}"


def _checksum(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def run(folder: Path) -> None:
    """Compile the model in a process of its own, which logs into a folder."""
    model = folder / "branching.py"
    model.write_text(MODEL)
    logging = {
        "TORCH_TRACE": str(folder / "trace"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
    }
    subprocess.run([sys.executable, model], check=True, env={**os.environ, **logging}, cwd=folder)


def entries(log: str) -> Iterator[list[str]]:
    for part in re.split(r"^(?=[VIWEC]\d{4} )", log, flags=re.M):
        if part:
            yield part.removesuffix("\n").split("\n")


def shortened(log: str) -> Iterator[str]:
    """The entries that are kept; of a compilation's numbers, those of failures."""
    events = 0
    for header, *text in entries(log):
        prefix, _, metadata = header.partition("] ")
        said = json.loads(metadata)
        kind = next(iter(said))
        name = said["artifact"]["name"] if kind == "artifact" else kind
        events += kind == "chromium_event"
        if name.startswith(_LEFT_OUT) or (kind == "chromium_event" and events > _EVENTS):
            continue
        if kind == "compilation_metrics":
            numbers = said[kind].items()
            said[kind] = {key: value for key, value in numbers if key.startswith(("co_", "fail_"))}
        if "has_payload" in said:
            said["has_payload"] = _checksum("\n".join(line[1:] for line in text))
        yield "\n".join([f"{prefix}] {json.dumps(said)}", *text])


def without_paths(text: str, folder: Path) -> str:
    """The text, with the paths of somebody else's machine."""
    text = text.replace(str(folder / "branching.py"), FILE).replace(str(folder), "/home/someone")
    text = text.replace(str(folder / "branching.py").removeprefix("/"), FILE.removeprefix("/"))
    text = re.sub(r"^\t?os\.environ.*\n", "", text, flags=re.M)
    text = re.sub(r"mp/[\w.-]+/branching\.py", "me/someone/branching.py", text)
    return re.sub(r"/[\w./-]+/site-packages", "/usr/lib/python3/site-packages", text)


def main() -> None:
    """Write the log."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    out = parser.parse_args().folder
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="torchlogs") as name:
        folder = Path(name)
        run(folder)
        (log,) = (
            text
            for file in (folder / "trace").iterdir()
            if "dynamo_start" in (text := file.read_text())
        )
        kept = shortened(without_paths(log, folder))
        (out / "trace.log").write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
