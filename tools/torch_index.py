"""Print the pip arguments that bring the wanted build of torch.

    python tools/torch_index.py cpu     the CPU build, 0.2 GB
    python tools/torch_index.py cuda    the build that pip takes by itself on Linux, with
                                        CUDA: several GB
    python tools/torch_index.py URL     a build from another index, such as PyTorch's cu126

For `cpu`, pip is asked first what it would install. Only where that brings CUDA packages is
PyTorch's own index added: a machine whose pip already finds a CPU build, or that already has torch,
needs no other index.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"


def pip_would_bring_cuda() -> bool:
    """Whether installing torch with the constraints would bring NVIDIA's packages;
    nothing is installed.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--report", "-"]
    command += ["--constraint", str(CONSTRAINTS), "torch"]
    report = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if report.returncode != 0:
        return False
    packages = json.loads(report.stdout)["install"]
    return any(package["metadata"]["name"].startswith("nvidia-") for package in packages)


def arguments(build: str) -> str:
    """The arguments for `pip install`; "" where pip's own choice is the right one."""
    if build == "cuda":
        return ""
    if build == "cpu":
        return f"--extra-index-url {CPU_INDEX}" if pip_would_bring_cuda() else ""
    if build.startswith(("https://", "http://", "file:")):
        return f"--extra-index-url {build}"
    raise SystemExit(f"TORCH is {build!r}: expected cpu, cuda or the address of an index")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(arguments(sys.argv[1]))
