"""Tasks of benchmarks are read as they are."""

import json
from pathlib import Path

import pytest

from kernellab.cli.main import main
from kernellab.cli.tasks import judged_task
from kernellab.errors import KernelLabError

KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def scaled_sum(x_ptr, y_ptr, z_ptr, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
    tl.store(z_ptr + at, x + y * SCALE, mask=at < n)

def launched(x, y, scale):
    z = torch.empty_like(x)
    scaled_sum[(triton.cdiv(x.numel(), 128),)](x, y, z, x.numel(), SCALE=scale, BLOCK=128)
    return z
"""

GPU_MODE = {
    "task.yml": """
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
tests:
  - {"size": 300, "seed": 4}
  - {"size": 5000000, "seed": 5}
""",
    "task.py": "import torch\ninput_t = output_t = torch.Tensor\n",
    "../utils.py": "def make_match_reference(reference):\n    return reference\n",
    "reference.py": """
import torch
from task import input_t, output_t
from utils import make_match_reference

def ref_kernel(data: input_t) -> output_t:
    x, y = data
    return x + y * torch.full((), 2.0, device="cuda")

def generate_input(size: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    return tuple(torch.randn(size, device="cuda", generator=gen).contiguous() for _ in range(2))

check_implementation = make_match_reference(ref_kernel)
""",
    "answer.py": KERNEL
    + """
from task import input_t, output_t

def custom_kernel(data: input_t) -> output_t:
    return launched(*data, 2.0)

def wrong(data):
    return launched(*data, 1.0)
""",
}  # fmt: skip

ROBUST_KBENCH = {
    "config_forward.json": json.dumps(
        {
            "single_init_configs": [{"scale": 2.0}],
            "single_input_configs": [{"rows": 3}, {"rows": 5}],
            "single_shared_configs": [{"columns": 40}],
        }
    ),
    "func_forward.py": """
import torch

def forward_fn(x, y):
    return x + 2 * y

class Model(torch.nn.Module):
    def __init__(self, scale, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(columns))
    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight.expand_as(x).contiguous())

def get_inputs(rows, columns):
    return [torch.randn(rows, columns)]
""",
    "answer.py": KERNEL
    + """
def forward(x, y):
    return launched(x.contiguous(), y.contiguous(), 2.0)

def wrong(x, y):
    return launched(x.contiguous(), y.contiguous(), 1.0)
""",
}


@pytest.mark.parametrize(
    ("files", "name"),
    [
        pytest.param(GPU_MODE, "custom_kernel", id="GPU MODE", marks=pytest.mark.slow),
        pytest.param(ROBUST_KBENCH, "forward", id="robust-kbench", marks=pytest.mark.slow),
    ],
)
def test_a_folder_with_a_task(files, name, tmp_path, capsys) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    for file, text in files.items():
        Path(folder, file).write_text(text)
    with judged_task(str(folder), None) as task:
        assert len(task.cases) == (1 if files is GPU_MODE else 2)
    words = ["--reference", str(folder), "--unseen", "values"]
    assert main(["judge", f"{folder}/answer.py::{name}", *words]) == 0, capsys.readouterr().out
    assert "accepted" in capsys.readouterr().out
    assert main(["judge", f"{folder}/answer.py::wrong", *words]) == 1
    assert ", expected " in capsys.readouterr().out


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"task.yml": "files: 5"},
        {"task.yml": GPU_MODE["task.yml"]},
        {"task.yml": "files: []\ntests: []"},
        {"func_forward.py": "", "config_forward.json": "["},
        {"func_forward.py": "", "config_forward.json": "{}"},
    ],
    ids=str,
)
def test_a_folder_without_a_task(files: dict[str, str], tmp_path: Path) -> None:
    for file, text in files.items():
        Path(tmp_path, file).write_text(text)
    with pytest.raises(KernelLabError), judged_task(str(tmp_path), None):
        pass
