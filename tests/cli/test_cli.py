"""The command line: through a real process where the process matters, else through `main`."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from kernellab.cli import doctor
from kernellab.cli.main import main
from tests.support.pages import assert_loads_nothing, texts_of, views_in
from tests.support.python_processes import python_path

KERNELS = '''
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    """Multiply. </pre><script>alert("not on my page")</script>"""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) * factor, mask=inside)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    rows = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(c_ptr + rows, tl.dot(tl.load(a_ptr + rows), tl.load(b_ptr + rows)))


@triton.jit
def broken(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, missing)
'''

SCALE = ["--sig", "*fp32:16, *fp32:16, i32, fp32", "--constexpr", "BLOCK=256"]


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "kernels.py"


def kernellab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernellab", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def refused(capsys, *arguments: str) -> str:
    """What the command says as it refuses its input; nothing goes to standard output."""
    status: object
    try:
        status = main(arguments)
    except SystemExit as exit:  # argparse's way
        status = exit.code
    printed = capsys.readouterr()
    assert status == 2, printed.out
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return str(printed.err)


def test_no_module_of_the_current_folder_is_imported(file) -> None:
    for name in ("argparse", "typing", "dataclasses", "random"):
        (file.parent / f"{name}.py").write_text("open('ran', 'w').close()")
    assert kernellab("--version").returncode == 0
    assert not (file.parent / "ran").exists()


@pytest.mark.slow
def test_compile_prints_the_card_and_writes_the_report(file) -> None:
    finished = kernellab(
        "compile", "kernels.py::scale", *SCALE, "--num-warps", "2", "-o", "scale.html"
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("scale  compiled for sm_90")
    assert "registers per thread" in finished.stdout
    assert "*fp32, divisible by 16" in finished.stdout
    assert "Report: scale.html" in finished.stdout
    page = (file.parent / "scale.html").read_text()
    assert_loads_nothing(page)
    assert '<script>alert("not on my page")' not in page
    (view,) = views_in(page)
    assert "ttgir.coalesce" in [one["label"] for one in view["sides"][0]["passes"]]
    texts = texts_of(view)
    assert any(
        "def scale(" in text and '<script>alert("not on my page")</script>' in text
        for text in texts
    )
    assert any("tt.func public @scale" in text and '"ttg.num-warps"' not in text for text in texts)
    assert any('"ttg.num-warps" = 2' in text for text in texts)
    assert any(".target sm_90a" in text for text in texts)
    assert any("EXIT" in text for text in texts)


@pytest.mark.slow
def test_compile_for_several_targets_shows_them_side_by_side(file, capsys) -> None:
    status = main(
        [
            "compile", "kernels.py::product", "--sig", "*fp16:16, *fp16:16, *fp32:16",
            "--constexpr", "SIZE=64", "--target", "sm_80,sm_90,gfx942", "-o", "product.html",
        ]
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert status == 0
    targets = ["sm_80", "sm_90", "gfx942"]
    assert [line.split()[0] for line in printed.splitlines()[2:5]] == targets
    assert "HMMA.16816.F32" in printed
    assert "HGMMA.64x64x16.F32" in printed
    assert "v_mfma_f32" in printed
    page = (file.parent / "product.html").read_text()
    assert_loads_nothing(page)
    for number, target in enumerate(targets):
        assert f'<h2 id="part-{number}">product for {target}</h2>' in page
        assert f'<a href="#part-{number}">product for {target}</a>' in page


def test_a_report_of_a_compilation_that_failed_shows_how_far_it_came(
    file, capsys, messages
) -> None:
    status = main(["compile", "kernels.py::scale", *SCALE[:-1], "BLOCK=100", "-o", "failed.html"])
    assert status == 2
    assert capsys.readouterr().err == messages
    (view,) = views_in((file.parent / "failed.html").read_text())
    assert "power of 2" in view["sides"][0]["failure"]


def test_compile_without_types_assumes_them_and_says_so(file, capsys) -> None:
    assert main(["compile", "kernels.py::scale", "--constexpr", "BLOCK=256"]) == 0
    assert "assumed" in capsys.readouterr().out


def test_one_kernel_in_a_file_needs_no_name(tmp_path, capsys) -> None:
    only = tmp_path / "json.py"  # a module's name: the file must not take its place
    only.write_text(KERNELS.partition("@triton.jit\ndef product")[0])
    assert main(["compile", str(only), *SCALE]) == 0
    assert capsys.readouterr().out.startswith("scale  compiled for")
    import json

    assert json.loads("[1]") == [1]
    assert str(tmp_path) not in sys.path  # other processes get this path along


def test_a_file_finds_its_neighbors(file, capsys) -> None:
    (file.parent / "numbers_of_mine.py").write_text("SIZE = 128\n")
    (file.parent / "user.py").write_text("from numbers_of_mine import SIZE\n" + KERNELS)
    assert main(["compile", "user.py::scale", *SCALE]) == 0


BAD_INPUT = {
    "kernel.py::scale": ["'kernel.py'", "'kernels.py'"],
    "kernels.py::scael": ["'scael'", "'scale'", "scale, product, broken"],
    "kernels.py::nope": ["'nope'", "scale, product, broken"],
    "kernels.py::scale --sig '*fp32, *fp32'": [
        "--constexpr BLOCK=VALUE", '--sig "..., n=TYPE, factor=TYPE"',
    ],
    "kernels.py": ["3 kernels", "kernels.py::scale"],
    "kernels.py::scale --target sm_91 SCALE": ["'sm_91'", "'sm_90'", "gfx942"],
    "kernels.py::scale --sig '*fp23, *fp32, i32, fp32'": ["'*fp23'", "'*fp32'"],
    "kernels.py::scale --sig '*fp32' --constexpr BLOCK=256": ["'out_ptr'", "kernels.py:7"],
    "kernels.py::scale --sig '*fp32, *fp32, i32, fp32'": ["'BLOCK'", "kernels.py:7"],
    "kernels.py::scale SCALE --constexpr BLOCK=100": [
        "power of 2", "kernels.py:9", "tl.arange(0, BLOCK)", "^",
    ],
    "kernels.py::broken --sig '*fp32' --constexpr BLOCK=256": [
        "missing is not defined", "kernels.py:23",
    ],
    "kernels.py::scale SCALE --num-warps 3": ["--num-warps", "'3'"],
    "kernels.py::scale --constexpr BLOCK": ["--constexpr", "'BLOCK'", "NAME=VALUE"],
    "kernels.py::scale SCALE -o nowhere/report.html": ["the folder", "nowhere"],
    "kernels.py::scale SCALE -o .": [" . "],
}  # fmt: skip
"""Arguments of `kernellab compile`, with SCALE for the kernel's types -> words of the answer."""


@pytest.mark.parametrize("line", BAD_INPUT, ids=map(str, range(len(BAD_INPUT))))
def test_bad_input_gets_one_clear_answer(file, capsys, line, messages) -> None:
    before, scale, after = line.partition("SCALE")
    arguments = [*shlex.split(before), *(SCALE if scale else ()), *shlex.split(after)]
    said = refused(capsys, "compile", *arguments)
    assert all(word in said for word in BAD_INPUT[line]), said
    assert said == messages


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import triton\nx = (\n", ["user.py:2"]),
        ("import triton\n\nx = 1 / 0\n", ["ZeroDivisionError", "user.py:3", "x = 1 / 0"]),
        ("import no_such_module\n", ["ModuleNotFoundError", "no_such_module", "user.py:1"]),
        ("x = 1\n", ["@triton.jit"]),
    ],
)
def test_a_file_that_does_not_run_is_shown_at_its_line(
    tmp_path, monkeypatch, capsys, text, words, messages
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "user.py").write_text(text)
    said = refused(capsys, "compile", "user.py::kernel")
    assert all(word in said for word in words), said
    assert said == messages


def test_unknown_commands_and_reports_that_cannot_be_written_are_found_out_before_the_work(
    tmp_path, capsys, messages
) -> None:
    lines = (
        ["compil"], ["workshop", "chek"], ["demo", "-o", str(tmp_path / "no" / "a.html")],
        ["judge", "a.py::a", "--reference", "b.py::b", "--lock", "x", "--update", "x"],
    )  # fmt: skip
    assert [refused(capsys, *words) for words in lines] == messages


@pytest.mark.slow
def test_tritons_interpreter_mode_is_refused_in_words(file) -> None:
    finished = kernellab("compile", "kernels.py::scale", *SCALE, TRITON_INTERPRET="1")
    assert finished.returncode == 2
    assert "TRITON_INTERPRET" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.slow
def test_doctor_finds_a_whole_installation() -> None:
    pytest.importorskip("jupyterlab")
    finished = kernellab("doctor")
    assert finished.returncode == 0, finished.stdout
    lines = finished.stdout.splitlines()
    assert lines[0].startswith("KernelLab ")
    assert lines[-1] == "All is well."
    subjects = [line.split()[1] for line in lines[1:] if line.startswith("  ok ")]
    assert {"Python", "torch", "triton", "xdsl", "compiler", "interpreter"} <= set(subjects)
    for tool in doctor.NVIDIA_TOOLS:
        version = next(line for line in lines if f" {tool} " in line)
        assert any(character.isdigit() for character in version.split()[2])


@pytest.mark.slow
def test_doctor_reports_what_is_broken_and_fails() -> None:
    """A Triton in its interpreter's mode can neither compile nor run for us."""
    finished = kernellab("doctor", TRITON_INTERPRET="1")
    assert finished.returncode == 1
    assert "unset TRITON_INTERPRET" in " ".join(finished.stdout.split())
    assert "Needs attention: " in finished.stdout.splitlines()[-1]


@pytest.mark.slow
def test_doctor_reports_a_missing_package_and_one_that_is_too_old(tmp_path) -> None:
    """Metadata of an old ml_dtypes, and of a kernellab that wants a missing package."""
    for name, version, requirements in [
        ("ml_dtypes", "0.1.0", []),
        ("kernellab", "0.1.0", ["ml_dtypes>=0.5", "no-such-package-anywhere>=2"]),
    ]:
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        lines = [f"Requires-Dist: {requirement}" for requirement in requirements]
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(metadata + "\n".join(lines) + "\n")
    finished = kernellab("doctor", PYTHONPATH=python_path(tmp_path))
    assert finished.returncode == 1
    assert "0.1.0, and KernelLab 0.1.0 needs >=0.5" in finished.stdout
    assert 'pip install "no-such-package-anywhere>=2"' in finished.stdout
    assert (
        finished.stdout.splitlines()[-1] == "Needs attention: ml_dtypes, no-such-package-anywhere."
    )


NOT_INSTALLED = """
import importlib.metadata
usual = importlib.metadata.distribution

def distribution(name):
    if name == "kernellab":
        raise importlib.metadata.PackageNotFoundError(name)
    return usual(name)

importlib.metadata.distribution = distribution
"""


@pytest.mark.slow
def test_a_checkout_on_the_path_that_is_not_installed(tmp_path) -> None:
    pytest.importorskip("jupyterlab")
    (tmp_path / "sitecustomize.py").write_text(NOT_INSTALLED)
    version = kernellab("--version", PYTHONPATH=python_path(tmp_path))
    assert (version.returncode, version.stderr) == (0, "")
    finished = kernellab("doctor", PYTHONPATH=python_path(tmp_path))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "not installed: it is taken from" in finished.stdout
    assert " ml_dtypes " in finished.stdout


@pytest.mark.parametrize(
    ("torch", "triton", "state"),
    [
        ("2.13.0+cpu", "3.7.1", "ok"), ("2.11.0", "3.6.0", "ok"), ("2.15.1+cu130", "3.9.0", "ok"),
        ("2.13.0", "3.6.0", "note"), ("2.30.0", "3.9.0", "note"),
    ],
)  # fmt: skip
def test_doctor_knows_which_versions_belong_together(torch, triton, state) -> None:
    finding = doctor.pairing(torch, triton)
    assert finding.state == state
    if torch == "2.13.0":
        assert "triton==3.7.*" in finding.advice


@pytest.mark.parametrize(
    ("torch", "state"),
    [("2.11.0", "ok"), ("2.15.1+cu130", "ok"), ("2.10.0", "note"), ("3.0", "note")],
)
def test_doctor_knows_which_torch_can_be_opened(torch, state) -> None:
    finding = doctor.compile_support(torch)
    assert finding.state == state
    assert "torch 2.11 to 2.15" in finding.what
    assert torch in finding.what


def test_what_the_doctor_says_as_text_and_as_json(monkeypatch, capsys) -> None:
    findings = [
        doctor.DoctorLine.of("Python", "ok", "3.11.7"),
        doctor.DoctorLine.of("xdsl", "missing", "not installed", "Install it."),
    ]
    assert not doctor.healthy(findings)
    assert doctor.report_text(findings).splitlines()[1:] == [
        "  ok      Python  3.11.7",
        "  missing xdsl    not installed",
        "                  -> Install it.",
        "",
        "Needs attention: xdsl.",
    ]
    monkeypatch.setattr(doctor, "examine", lambda: findings)
    assert main(["doctor", "--json"]) == 1
    ok, missing = json.loads(capsys.readouterr().out)
    assert (ok["kind"], ok["severity"], ok["what"]) == ("Python", "note", "3.11.7")
    assert (missing["severity"], missing["advice"]) == ("error", "Install it.")
    assert [each["facts"]["state"] for each in (ok, missing)] == ["ok", "missing"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "constants", [["BM=64,BN=32"], ["BM=64", "BN=32"], ["BM=64", "--constexpr", "BN=32"]]
)
def test_several_constants(tmp_path, capsys, constants: list[str]) -> None:
    file = tmp_path / "two.py"
    file.write_text(
        "import triton\nimport triton.language as tl\n"
        "@triton.jit\n"
        "def fill(x_ptr, BM: tl.constexpr, BN: tl.constexpr):\n"
        "    tl.store(x_ptr + tl.arange(0, BM * BN), BM)\n"
    )
    assert main(["compile", "--constexpr", *constants, f"{file}::fill", "--sig", "*fp32"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"BM +constexpr +64 +--constexpr", said)
    assert re.search(r"BN +constexpr +32 +--constexpr", said)
