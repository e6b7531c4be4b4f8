"""Attacks are rejected, honest submissions are accepted, and verdicts are data."""

import ast
import functools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab import Verdict
from kernellab.cli import tasks
from kernellab.cli.main import main
from kernellab.errors import ArgumentError, OptionError
from kernellab.judging import confinement
from kernellab.judging.records import LARGEST, SCHEMA, STAGES
from kernellab.judging.worker import wait_for_worker
from tests.judging.softmax_cases import ATTACKS, FOLDER, HONEST, cases, softmax

QUICK = {
    "by_torch_beside_a_ghost", "by_torch_copied_by_a_kernel", "by_torch_after_a_failed_launch",
    "passed_through", "kept_by_shape", "for_one_size_only", "chosen_by_a_value",
    "with_a_forged_answer", "with_a_forged_option", "with_a_forged_line",
    "with_two_stages", "in_place", "with_infinities_and_nan",
}  # fmt: skip


def submissions(file: Path) -> Iterator[Any]:
    """Return the functions of one argument and the modules of a file, with their docstrings."""
    for node in ast.parse(file.read_text()).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        is_function = isinstance(node, ast.FunctionDef) and [a.arg for a in node.args.args] == ["x"]
        if is_function or (isinstance(node, ast.ClassDef) and node.name == "ModelNew"):
            if node.name != "launched":
                marks = [] if node.name in QUICK else [pytest.mark.slow]
                said = ast.get_docstring(node) or ""
                kinds = said.partition(":")[0].split("|")
                yield pytest.param(node.name, kinds, id=node.name, marks=marks)


@pytest.fixture(scope="module", autouse=True)
def _worker() -> None:
    wait_for_worker()


def judged(file: Path, name: str, **options: Any) -> Verdict:
    return kernellab.judge(f"{file}::{name}", softmax, cases, **options)


@pytest.mark.parametrize(("name", "kinds"), [*submissions(ATTACKS)])
def test_an_attack_is_not_accepted(name: str, kinds: list[str]) -> None:
    targets = "sm_90,sm_80" if "targets" in name else "sm_90"
    verdict = judged(ATTACKS, name, seconds=8, targets=targets)
    assert verdict.verdict != "accepted"
    assert verdict.kind in kinds
    assert len(verdict.json()) <= LARGEST
    if "address" in name:  # which differ from run to run
        assert judged(ATTACKS, name, seconds=8).json() == verdict.json()


@pytest.mark.parametrize(("name", "kinds"), [*submissions(HONEST)])
def test_honest_work_is_accepted(name: str, kinds: list[str]) -> None:
    assert kinds == [""]
    verdict = judged(HONEST, name)
    assert verdict, str(verdict)
    assert (verdict.reached, verdict.traced) == (STAGES[-1], {"output 0": 1.0})
    assert name != "with_two_stages" or verdict.equality == "equal"


@pytest.mark.slow
def test_no_line_of_another_file_is_shown(tmp_path: Path) -> None:
    """A record names a file of this machine as that of its kernel."""
    secret = tmp_path / "key.py"
    secret.write_text("s3cret\n" * 900)
    file = tmp_path / "answer.py"
    forged = f"""
def forged(x):
    z = torch.empty_like(x)
    unmasked[(6,)](x, z, 20, BLOCK=32)
    thing = recorder()
    thing._described[0]["functions"][0] |= {{"file": {str(secret)!r}, "first_line": 1}}
    text = thing._modules[0]["text"]
    thing._modules[0]["text"] = text.replace('{file}":', '{secret}":2')
    return z
"""
    file.write_text(ATTACKS.read_text() + forged)
    verdict: Any = judged(file, "forged")
    assert verdict.kind == "out-of-bounds"
    assert verdict.diagnostic.position.file == str(secret)
    assert "s3cret" not in f"{verdict} {verdict.json()}"


def test_what_is_not_confined_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "_landlock_version", lambda: -1)
    assert any("Landlock" in words for words in judged(ATTACKS, "passed_through").not_examined)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_submission_is_a_regular_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "answer.py")
    with pytest.raises(ArgumentError):
        judged(tmp_path / "answer.py", "f")


def test_a_verdict_is_data_and_the_same_again(tmp_path: Path) -> None:
    verdict = judged(ATTACKS, "for_one_size_only")
    data = json.loads(verdict.json())
    assert (data["schema"], data["verdict"], data["reached"]) == (SCHEMA, "rejected", "safe")
    assert data["element"]["index"] == [0, 0]
    line = ATTACKS.read_text().splitlines()[data["diagnostic"]["line"] - 1]
    assert "tl.store(" in line
    card = verdict._repr_mimebundle_()
    assert "tl.store(" in card["text/plain"]
    assert "wrong-result" in card["text/html"]
    assert judged(ATTACKS, "for_one_size_only").json() == verdict.json()
    (result,) = verdict.sarif()["runs"][0]["results"]
    assert (
        result["locations"][0]["physicalLocation"]["region"]["startLine"]
        == data["diagnostic"]["line"]
    )
    suite = ElementTree.fromstring(verdict.junit())
    assert suite.get("failures") == "1"
    assert [each.get("type") for each in suite.iter("failure")] == ["wrong-result"]


OTHERS, UNUSUAL = FOLDER / "other_kernels.py", FOLDER / "unusual.py"
SIZES: dict[str, tuple[Any, ...]] = {
    "matmul": ((20, 24), (24, 18)), "norm": ((6, 20), (20,), (20,)), "relu": ((6, 20), (20,)),
    "add": ((300,), (300,)), "double": ((64, 32),), "stacked": ((300,), (300,)),
    "attention": ((20, 16),) * 3, "image": ((2, 3, 4, 5),), "loss": ((6, 20), torch.arange(6) * 3),
    "whole": ((6, 20),), "spread": ((64, 64),), "count": (torch.arange(64) // 2,),
    "complex": (torch.ones(6, 5, dtype=torch.complex64),), "half": (torch.ones(6, 5).half(),),
    **dict.fromkeys(("softmax", "total", "best", "scan", "positive", "decay"), ((6, 20),))
}  # fmt: skip
REFERENCES = {
    "matmul": torch.mm,
    "norm": lambda x, w, b: torch.nn.functional.layer_norm(x, (x.shape[1],), w, b),
    "total": lambda x: x.sum(1),
    "relu": lambda x, y: torch.relu(x + y),
    "add": torch.add,
    **dict.fromkeys(("double", "image", "complex", "half"), lambda x: 2 * x),
    "stacked": lambda x, y: torch.stack([x, y]),
    "attention": lambda q, k, v: torch.softmax(q @ k.T / 4, -1) @ v,
    "loss": functools.partial(torch.nn.functional.cross_entropy, reduction="none"),
    "softmax": softmax,
    "best": lambda x: x.max(1),
    "scan": lambda x: x.cumsum(1),
    "positive": lambda x: x > 0,
    "whole": torch.trunc,
    "spread": lambda x: x.abs().mean(),
    "count": torch.sum,
    "decay": lambda x: (x * torch.exp(-torch.arange(x.shape[1]) / 8)).sum(1),
}
QUICK_OTHERS = {"matmul_by_torch"}


def of_other_tasks() -> list[Any]:
    cases: list[Any] = []
    for file in (OTHERS, UNUSUAL):
        for node in ast.parse(file.read_text()).body:
            docstring = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else ""
            made = node.targets[0] if isinstance(node, ast.Assign) else node
            name = str(getattr(made, "id", getattr(made, "name", "")))
            if name.partition("_")[0] in SIZES:
                kinds = (docstring or "").partition(":")[0].split("|")
                marks = [] if name in QUICK_OTHERS else [pytest.mark.slow]
                cases.append(pytest.param(f"{file}::{name}", kinds, id=name, marks=marks))
    return sorted(cases, key=lambda case: len(case.marks))


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("submission", "kinds"), of_other_tasks())
def test_a_submission_of_another_task(submission: str, kinds: list[str]) -> None:
    task = submission.partition("::")[2].partition("_")[0]
    generator = torch.Generator().manual_seed(3)
    case = tuple(
        torch.randn(size, generator=generator) if isinstance(size, tuple) else size
        for size in SIZES[task]
    )
    verdict = kernellab.judge(submission, REFERENCES[task], [case])
    assert verdict.kind in kinds, str(verdict)
    assert bool(verdict) == (kinds == [""])


@triton.jit
def scale(x_ptr, z_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=at < n) * FACTOR, mask=at < n)


def launch(factor: float) -> dict[str, Any]:
    x = torch.randn(100, generator=torch.Generator().manual_seed(1))
    arguments = {"x_ptr": x, "z_ptr": torch.zeros(100), "n": 100, "FACTOR": factor, "BLOCK": 64}
    return {"grid": (2,), **arguments}


@pytest.mark.slow
def test_a_kernel_is_judged_with_its_grid() -> None:
    right = kernellab.judge(scale, lambda x_ptr: {"z_ptr": 2 * x_ptr}, launch(2.0))
    assert right, str(right)
    assert (right.traced, right.equality) == ({"z_ptr": 1.0}, "equal")
    assert [kernel.name for kernel in right.kernels] == ["scale"]
    wrong: Any = kernellab.judge(scale, lambda x_ptr: {"z_ptr": 2 * x_ptr}, launch(3.0))
    assert (wrong.kind, wrong.reached) == ("wrong-result", "safe")
    assert wrong.element.name == "z_ptr"
    assert "verdict: accepted -> rejected" in right.diff(wrong)
    assert right.diff(right) == ""
    assert "computed in program (0, 0, 0)" in wrong.diagnostic.why
    assert "from x_ptr[0] = " in wrong.diagnostic.why


@triton.jit
def from_an_address(x_ptr, z_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr, address):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = (address + tl.zeros((BLOCK,), tl.int64) + at * 4).to(tl.pointer_type(tl.float32))
    tl.store(z_ptr + at, tl.load(place, mask=at < n), mask=at < n)


def test_no_memory_of_the_judge_is_read() -> None:
    case = launch(2.0)
    right = 2 * case["x_ptr"]
    case = {**case, "address": right.data_ptr()}
    verdict = kernellab.judge(from_an_address, {"z_ptr": right}, case, unseen=())
    assert verdict.kind == "out-of-bounds", str(verdict)


@triton.jit
def positive_part(x_ptr, z_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(z_ptr + at, x * FACTOR, mask=(at < n) & (x > 0))


@pytest.mark.parametrize(
    ("outputs", "kind"), [({}, "not-equal"), ({"outputs": "z_ptr"}, "unwritten-output")], ids=str
)
def test_what_is_in_an_output_before_the_launch_does_not_count(outputs, kind) -> None:
    def reference(x_ptr: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"z_ptr": 2 * x_ptr.relu()}

    verdict = kernellab.judge(positive_part, reference, {**launch(2.0), **outputs}, unseen=())
    assert verdict.kind == kind, str(verdict)


@pytest.mark.slow
def test_a_function_may_write_to_its_arguments(tmp_path: Path) -> None:
    """As the tasks of GPU MODE do: the inputs and the output are one argument."""
    file = tmp_path / "answer.py"
    file.write_text(
        HONEST.read_text()
        + "def into_the_argument(data):\n"
        + "    x, z = data\n"
        + "    softmax[(x.shape[0],)](x, z, x.shape[1], x.stride(0), BLOCK=32)\n"
        + "def into_nothing(data):\n"
        + "    softmax[(6,)](data[0], torch.empty_like(data[0]), 20, 20, BLOCK=32)\n"
    )

    def reference(data: tuple[torch.Tensor, torch.Tensor]) -> None:
        data[1].copy_(torch.softmax(data[0], -1))

    given = [((torch.randn(6, 20), torch.zeros(6, 20)),)]
    verdict = kernellab.judge(f"{file}::into_the_argument", reference, given, unseen=("values",))
    assert verdict, str(verdict)
    assert verdict.traced == {"output 1": 1.0}
    assert kernellab.judge(f"{file}::into_nothing", reference, given).kind == "not-computed"


@triton.jit
def clamp(x_ptr, z_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(z_ptr + at, tl.minimum(x * FACTOR, 7.0), mask=at < n)


@triton.jit
def shift(x_ptr, z_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(z_ptr + at, x * FACTOR + 1e-6, mask=at < n)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "kind", "equality"),
    [(clamp, "", "not decided"), (shift, "not-equal", "different")],
    ids=["large inputs", "small inputs"],
)
def test_inputs_that_no_case_has(kernel: Any, kind: str, equality: str) -> None:
    def reference(x_ptr: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"z_ptr": 2 * x_ptr}

    verdict = kernellab.judge(kernel, reference, launch(2.0), unseen=())
    assert (verdict.kind, verdict.equality) == (kind, equality)


@triton.jit
def product(x_ptr, y_ptr, z_ptr, SIZE: tl.constexpr, PRECISION: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    z = tl.dot(tl.load(x_ptr + at), tl.load(y_ptr + at), input_precision=PRECISION)
    tl.store(z_ptr + at, z)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "rtol", "kind"),
    [("ieee", None, ""), ("tf32", None, "rounding"), ("tf32", 4e-3, "")],
)
def test_a_dot_that_rounds_is_not_a_wrong_one(precision, rtol, kind) -> None:
    generator = torch.Generator().manual_seed(2)
    x, y = (torch.randn(32, 32, generator=generator) for _ in range(2))
    case = {"grid": (1,), "x_ptr": x, "y_ptr": y, "z_ptr": torch.zeros(32, 32)}
    verdict = kernellab.judge(
        product,
        lambda x_ptr, y_ptr: {"z_ptr": x_ptr @ y_ptr},
        {**case, "SIZE": 32, "PRECISION": precision},
        rtol=rtol,
    )
    assert verdict.kind == kind, str(verdict)


def by_descriptor(x, z, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE
    z.store([at, 0], x.load([at, 0]) * 2)


@pytest.mark.slow
def test_a_descriptor_is_an_argument() -> None:
    x, z = (TensorDescriptor.from_tensor(torch.randn(32, 16), [16, 16]) for _ in range(2))
    case = {"grid": (2,), "x": x, "z": z, "SIZE": 16}
    kernel = triton.jit(by_descriptor)
    right = kernellab.judge(kernel, lambda x: {"z": 2 * x.base}, case)
    assert right, str(right)
    assert right.traced == {"z": 1.0}
    assert kernellab.judge(kernel, lambda x: {"z": 3 * x.base}, case).kind == "wrong-result"


@pytest.mark.slow
def test_time_is_compared_with_the_budget_and_the_hardware() -> None:
    reference = {"z_ptr": 2 * launch(2.0)["x_ptr"]}
    options: Any = {"unseen": ()}
    assert kernellab.judge(scale, reference, launch(2.0), baseline=1e6, **options)
    slow = kernellab.judge(scale, reference, launch(2.0), baseline=1e-6, **options)
    assert slow.kind == "over-budget"
    impossible = kernellab.judge(scale, reference, launch(2.0), claimed=1e-9, **options)
    assert (impossible.kind, impossible.reached) == ("impossible-time", "deterministic")


@pytest.mark.slow
def test_every_target_is_compiled() -> None:
    verdict = judged(HONEST, "plain", targets=("sm_80", "sm_90", "gfx942"), unseen=())
    assert verdict, str(verdict)
    assert {kernel.target for kernel in verdict.kernels} == {"sm_80", "sm_90", "gfx942"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def f(:", "code-error"),
        ("raise ValueError('no')", "code-error"),
        ("", "not-a-kernel"),
        ("f = 5", "not-a-kernel"),
        ("def f():\n    pass", "code-error"),
        ("def f(x):\n    return 5", "not-computed"),
    ],
)
def test_what_is_not_a_submission_is_rejected(text: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "answer.py"
    file.write_text(text)
    verdict = judged(file, "f")
    assert (verdict.verdict, verdict.kind) == ("rejected", kind)


def test_a_reference_that_fails_is_not_held_against_the_submission() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    for reference in (fails, lambda x: 5):
        verdict = kernellab.judge(f"{HONEST}::plain", reference, cases)
        assert (verdict.verdict, verdict.kind) == ("not judged", "reference")


def test_a_reference_that_is_constant_is_reported() -> None:
    verdict = kernellab.judge(f"{HONEST}::plain", torch.zeros_like, cases)
    assert any("do not depend" in words for words in verdict.not_examined)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"cases": []}, ArgumentError),
        ({"cases": 5}, ArgumentError),
        ({"cases": {"grid": (1,), "outputs": "y_ptr", "x_ptr": torch.zeros(1)}}, ArgumentError),
        ({"submission": "nothing.py::f"}, ArgumentError),
        ({"submission": 5}, ArgumentError),
        ({"unseen": ("weights",)}, OptionError),
    ],
)
def test_bad_options_raise(options: dict[str, Any], error: type[Exception]) -> None:
    given = {"submission": f"{HONEST}::plain", "reference": softmax, "cases": cases, **options}
    with pytest.raises(error):
        kernellab.judge(**given)


SOFTMAX_TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)

def get_inputs():
    return [torch.randn(4, 20)]
"""


@pytest.mark.slow
def test_the_command_judges_tasks_of_kernelbench(tmp_path, capsys) -> None:
    task = tmp_path / "task.py"
    task.write_text(SOFTMAX_TASK)
    junit, sarif = tmp_path / "junit.xml", tmp_path / "verdict.sarif"
    page = tmp_path / "verdict.html"
    words = ["judge", f"{HONEST}::ModelNew", "--reference", f"{task}::Model", "-o", str(page)]
    assert main([*words, "--json", "--junit", str(junit), "--sarif", str(sarif)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "accepted"
    assert data["moved_bytes"] == 640
    assert data["compulsory_bytes"] == 640
    (kernel,) = data["kernels"]
    assert (kernel["occupancy"], kernel["uses_tensor_cores"]) == (1.0, False)
    assert "accepted" in page.read_text()
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    assert json.loads(sarif.read_text())["runs"][0]["results"] == []
    assert main(["judge", f"{ATTACKS}::by_torch", "--reference", f"{task}::Model"]) == 1
    assert "a result that torch computes (_softmax)" in capsys.readouterr().out


ANSWERS = [
    *(f"{HONEST}::{name}" for name in ("ModelNew", "with_two_stages", "in_place", "into_zeros")),
    *(f"{ATTACKS}::{name}" for name in ("by_torch", "zeros")),
]


@pytest.mark.slow
def test_a_cluster_judges_and_loses_a_worker(tmp_path, capsys) -> None:
    distributed = pytest.importorskip("distributed")
    (tmp_path / "task.py").write_text(SOFTMAX_TASK)
    words = ["judge", *ANSWERS, "--reference", f"{tmp_path / 'task.py'}::Model", "--json"]
    assert main(words) == 1
    here = capsys.readouterr().out
    assert here.count("\n") == len(ANSWERS)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        pid = min(client.run(os.getpid).values())
        threading.Timer(8, os.kill, (pid, signal.SIGKILL)).start()  # while it judges
        assert main([*words, "--cluster", cluster.scheduler_address]) == 1
        assert pid not in client.run(os.getpid).values()
    assert capsys.readouterr().out == here


@pytest.mark.parametrize(
    "words",
    [
        ["answer.py::f", "--cluster", "tcp://127.0.0.1:1", "--update", "kernels.lock"],
        ["answer.py::f", "answer.py::g", "--lock", "kernels.lock"],
        ["empty::f"],
    ],
    ids=["a cluster and an update", "several and a lock", "an empty folder"],
)
def test_what_does_not_go_together_is_told(words, tmp_path, monkeypatch, capsys, messages) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["judge", *words, "--reference", "task.py"]) == 2
    assert capsys.readouterr().err == messages


@pytest.mark.slow
def test_a_worker_of_a_cluster_has_the_same_versions_and_files(tmp_path: Path) -> None:
    versions = {name: version(name) for name in ("kernellab", "torch", "triton")}
    there = tasks.judged_there({**versions, "triton": "3.0.0"}, str(tmp_path))
    assert "and not 3.0.0" in str(there)
    gone = tasks.judged_there(
        versions, str(tmp_path / "gone"), "a.py::f", "task.py", None, [None], {}
    )
    assert "has no folder" in str(gone)


TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(size))
        self.register_buffer("shift", torch.randn(size))
    def forward(self, x):
        return x * self.scale + self.shift

def get_inputs():
    return [torch.randn(4, 20)]

def get_init_inputs():
    return [20]
"""
ANSWER = """
import torch, triton, triton.language as tl

@triton.jit
def affine(x_ptr, scale_ptr, shift_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=mask)
    z = x * tl.load(scale_ptr + at, mask=mask) + tl.load(shift_ptr + at, mask=mask)
    tl.store(z_ptr + row * columns + at, z, mask=mask)

class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(size))
        self.register_buffer("shift", torch.randn(size))
    def forward(self, x):
        x = x.contiguous()
        z = torch.empty_like(x)
        affine[(x.shape[0],)](x, self.scale, self.shift, z, x.shape[1], BLOCK=32)
        return z

class Packing(ModelNew):
    def __init__(self, size):
        super().__init__(size)
        self.both = torch.stack([self.scale.detach(), self.shift])
    def forward(self, x):
        x = x.contiguous()
        z = torch.empty_like(x)
        affine[(x.shape[0],)](x, self.both[0], self.both[1], z, x.shape[1], BLOCK=32)
        return z

class Forgetful(ModelNew):
    def forward(self, x):
        self.shift = torch.zeros_like(self.shift)
        return super().forward(x)
"""


@pytest.mark.slow
def test_a_module_has_the_parameters_of_the_reference(tmp_path, capsys) -> None:
    task, answer = tmp_path / "task.py", tmp_path / "answer.py"
    task.write_text(TASK)
    answer.write_text(ANSWER)
    for name in ("ModelNew", "Packing"):
        assert main(["judge", f"{answer}::{name}", "--reference", str(task)]) == 0
        assert "accepted" in capsys.readouterr().out
    assert main(["judge", f"{answer}::Forgetful", "--reference", str(task), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["diagnostic"]["kind"] == "wrong-result"
