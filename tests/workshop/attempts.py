"""Answers that try to get more than they deserve; Python in a kernel runs while it compiles."""

import inspect
import re
import textwrap
from dataclasses import dataclass

from kernellab.judging.code import SourcePart, Texts
from kernellab.workshop.exercise import Answer, exercise_named
from kernellab.workshop.grader import answered
from tests.workshop import solutions


@dataclass(frozen=True)
class Attempt:
    """A cell that tries something, the step that it reaches, and its diagnostic's kind."""

    name: str
    exercise: str
    cell: str
    reached: str
    kind: str


@dataclass(frozen=True)
class WrongAnswer:
    """A wrong answer to an exercise: what is wrong, and the text of its cell."""

    exercise: str
    name: str
    cell: str


IMPORTS = "import triton\nimport triton.language as tl\n\n"


def answer_to(exercise: str, cell: str, seed: int | None = None) -> Answer:
    code = Texts((SourcePart("<a cell>", cell),), exercise)
    return answered(exercise_named(exercise), code, seed)


def cell(kernel: str, above: str = "") -> str:
    above, kernel = textwrap.dedent(above).strip(), textwrap.dedent(kernel).strip()
    return f"{IMPORTS}{above}\n\n{kernel}\n"


def changed(exercise: str, *changes: tuple[str, str], above: str = "") -> str:
    """Return a cell with the solution of an exercise, in which texts are replaced."""
    functions = {
        "matmul": (solutions.product, solutions.matmul),
        "linear_relu": (solutions.product, solutions.linear_relu),
        "flash_attention": (solutions.attended, solutions.flash_attention),
    }.get(exercise, (getattr(solutions, exercise),))
    text = "\n\n".join(inspect.getsource(function.fn) for function in functions)
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    return cell(text, above)


def imports_of(exercise: str) -> str:
    """Return what the stub of an exercise has above its functions."""
    return re.split("^@", exercise_named(exercise).stub, maxsplit=1, flags=re.MULTILINE)[0]


def add(stored: str, *, first: str = "pass", above: str = "") -> str:
    """Return a cell that stores an expression of `x` and `y` in the exercise `add`."""
    return cell(
        f"""
        @triton.jit
        def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
            {first}
            offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            mask = offsets < n
            x = tl.load(x_ptr + offsets, mask=mask)
            y = tl.load(y_ptr + offsets, mask=mask)
            tl.store(z_ptr + offsets, {stored}, mask=mask)
        """,
        above,
    )


def running(code: str) -> str:
    """Return a cell whose kernel runs Python while it compiles, and is wrong."""
    return add("x - y", first=f"tl.core.builtins.exec({textwrap.dedent(code).strip()!r})")


PATCHES = {
    "the checker finds nothing": """
        import kernellab.judging.judge, kernellab.workshop.grader as judge
        kernellab.judging.judge.check = lambda *args, **keywords: ()
        judge.problems_of = lambda *args, **keywords: []
        judge._Answering._checked = lambda *args: []
    """,
    "the costs are nothing": """
        import kernellab.workshop.grader as judge
        judge.over_budget = lambda *args: []
        judge._Answering._stopped = judge._Answering._priced = lambda self, *args: self._ended(
            "within budget", [])
    """,
    "the expected results become those of the kernel": """
        import gc, torch
        for value in gc.get_objects():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value.zero_()
    """,
    "the reference is the kernel's mistake": """
        from kernellab.workshop.exercise import Exercise
        Exercise.right_results = lambda self, case: {
            "z_ptr": case.arguments["x_ptr"] - case.arguments["y_ptr"]}
    """,
    "the diagnostics are remarks": """
        from kernellab.errors import Diagnostic
        import kernellab.workshop.exercise as answers
        answers.Answer.is_done = answers.Answer.is_right = True
        answers.RUNGS = ("within budget",) * 4
    """,
    "the draws are of one size": """
        import secrets, random
        secrets.randbelow = lambda limit: 0
        random.Random.randint = lambda self, least, most: least
    """,
    "the answer is another process's": """
        import contextlib, json, os
        verdict = {"reached": "within budget", "is_done": True, "grades": [], "problems": []}
        for pipe in range(3, 64):
            with contextlib.suppress(OSError):
                os.write(pipe, json.dumps(verdict).encode())
        os._exit(0)
    """,
}
"""Python that changes what judges, by what it changes; all of it in vain."""

_LIES = {
    "the modules refer to themselves": """
        import kernellab.judging.code as confined
        confined._module = lambda kernel, bound, request: {"same_as": 0}
    """,
    "the module is empty": """
        import kernellab.judging.code as confined
        confined._module = lambda kernel, bound, request: {"text": "module {}"}
    """,
    "the module has another signature": """
        import kernellab.triton_api as api
        def changed(*key, made=api.front_end_text, **options):
            text, records = made(*key, **options)
            return text.replace("!tt.ptr<f32>, i32) -> ()", "!tt.ptr<f32>, i64) -> ()"), records
        api.front_end_text = changed
    """,
    "the module promises more of its arguments": """
        import kernellab.triton_api as api
        def changed(*key, made=api.front_end_text, **options):
            text, records = made(*key, **options)
            return text.replace("= 16 : i32", "= 1024 : i32"), records
        api.front_end_text = changed
    """,
    "the answer is not one": """
        import kernellab.judging.code as confined
        confined._json = lambda **contents: b'{"functions": [{}], "modules": "many"}'
    """,
}
"""Python above a right kernel that changes what the confined process answers."""

_PRINTS = """
import json, os, sys
sys.stdout.write(json.dumps({"grades": [], "problems": []}) + chr(10))
sys.stdout.flush()
"""

CALLS = [
    Attempt(
        "os.system through getattr", "add",
        add("x + y", first='getattr(os, "system")("touch {marker}")', above="import os"),
        "", "refused-call",
    ),
    Attempt(
        "subprocess.Popen", "add",
        add("x + y", first='tl.core.builtins.exec("import subprocess; '
            "subprocess.Popen(['touch', '{marker}'])\")"),
        "", "refused-call",
    ),
    Attempt(
        "a verdict is printed", "add", running(f"{_PRINTS}os._exit(0)"), "", "ended-process"
    ),
    Attempt(
        "the cell exits", "add", cell("raise SystemExit(0)", "print('within budget')"),
        "", "ended-process",
    ),
    Attempt(
        "the cell starts a program", "add",
        cell("subprocess.run(['touch', '{marker}'])", "import subprocess"), "", "code-error",
    ),
]  # fmt: skip
"""Cells that use the system; `{marker}` is a file that must not come into being. What the confined
process is denied besides, tests/judging/attacks.py tries.
"""

_LOOPING_ADD = """
@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        for start in range(0, n, BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            mask = offsets < n
            total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
            tl.store(z_ptr + offsets, total, mask=mask)
"""
_LOOPING_DOT = """
@triton.jit
def dot_product(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    if tl.program_id(0) == tl.num_programs(0) - 1:
        for start in range(0, n, BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            mask = offsets < n
            x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
            total += tl.sum(x * tl.load(y_ptr + offsets, mask=mask, other=0.0), axis=0)
    tl.atomic_add(z_ptr, total)
"""
_CHEAP_WHEN_PRICED = """
@triton.jit
def transpose(x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    if rows == 256 and columns == 256:
        tl.store(z_ptr + r[:, None] * columns + c[None, :], 0.0, mask=inside)
    else:
        tile = tl.load(x_ptr + r[:, None] * columns + c[None, :], mask=inside)
        tl.store(z_ptr + c[None, :] * rows + r[:, None], tile, mask=inside)
"""
_ASM = 'tl.inline_asm_elementwise("{}", "=r,r,r", [{}], dtype=tl.float32, is_pure=True, pack=1)'

WRONG = [
    Attempt("1e-4 off", "add", add("x + y + 1e-4"), "safe", "wrong-result"),
    Attempt("1e-6 off", "add", add("x + y + 1e-6"), "safe", "wrong-result"),
    Attempt("a factor of 1 + 1e-6", "add", add("(x + y) * 1.000001"), "safe", "wrong-result"),
    Attempt("in float16", "add", add("(x.to(tl.float16) + y.to(tl.float16)).to(tl.float32)"),
            "safe", "wrong-result"),
    *(Attempt(f"wrong where {words}", "add", add(f"tl.where({condition}, 1.0, x + y)"),
              "safe", "wrong-result")
      for words, condition in {
          "x is not aligned to 64 bytes": "x_ptr.to(tl.int64) % 64 != 0",
          "z is not aligned to 64 bytes": "z_ptr.to(tl.int64) % 64 != 0",
          "x is not aligned to 128 bytes": "x_ptr.to(tl.int64) % 128 == 64",
          "x and y are one tensor": "x_ptr.to(tl.int64) == y_ptr.to(tl.int64)",
          "n is more than 300,000": "n > 300 * 1000",
          "n is a multiple of 1,000": "n % 1000 == 0",
          "more than 500 programs are": "tl.program_id(0) > 500",
          "a block has 4,096 elements": "BLOCK == 4096",
          "an element is 0": "x == 0",
          "an element is large": "tl.abs(x) > 1000",
          "an element is infinite": "tl.abs(x) == float('inf')",
          "an element is NaN": "x != x",
      }.items()),
    Attempt("in tf32", "matvec", changed(
        "matvec", ("(ROWS, COLUMNS)", "(ROWS, 16)"),
        ("total += a * tl.load(x_ptr + c, mask=c < columns, other=0.0)[None, :]",
         "x = tl.load(x_ptr + c, mask=c < columns, other=0.0)\n"
         "        total = tl.dot(a, tl.broadcast_to(x[:, None], (COLUMNS, 16)), total)"),
        ("tl.sum(total", "tl.max(total")), "safe", "wrong-result"),
    Attempt("an accumulator in float16", "matmul", changed(
        "matmul", ("tl.float32", "tl.float16"),
        ("acc = tl.dot(a, b.to(tl.float16), acc)", "acc += tl.dot(a, b).to(tl.float16)")),
        "safe", "wrong-result"),
    *(Attempt(name, "silu_gate", changed("silu_gate", change), "safe", "wrong-result")
      for name, change in {
          "1e-4 off in a gate": ("(x) * y", "(x) * y + 1e-4"),
          "1e-6 off in a gate": ("(x) * y", "(x) * y * 1.000001"),
          "a rough sigmoid": ("tl.sigmoid(x)", "(0.5 + 0.5 * x / (1.0 + tl.abs(x)))"),
      }.items()),
    Attempt("a factor of 1 + 1e-4", "softmax",
            changed("softmax", ("weights / tl.sum", "1.0001 * weights / tl.sum")),
            "safe", "wrong-result"),
    Attempt("no maximum is subtracted", "softmax",
            changed("softmax", ("x - tl.max(x, axis=0)", "x")), "safe", "infinity"),
    Attempt("wrong for small blocks", "sum_rows",
            changed("sum_rows", ("axis=0)", "axis=0) if BLOCK > 32 else 0.0")),
            "safe", "wrong-result"),
    Attempt("one program does everything", "add", cell(_LOOPING_ADD), "right", "uneven-work"),
    Attempt("one program adds everything", "dot_product", cell(_LOOPING_DOT), "right",
            "uneven-work"),
    Attempt("inline assembly", "add", add(_ASM.format("add.f32 $0, $1, $2;", "x, y")),
            "", "inline-assembly"),
    Attempt("inline assembly that does nothing", "add",
            add(_ASM.format("mov.b32 $0, $1;", "x + y, x")), "", "inline-assembly"),
    Attempt("nothing where it is priced", "transpose", cell(_CHEAP_WHEN_PRICED), "safe",
            "wrong-result"),
    Attempt("a hook computes the results", "add",
            add("x")
            + "\nadd.add_pre_run_hook(lambda x, y, z, *more, **others: z.copy_(x + y))\n",
            "safe", "wrong-result"),
    Attempt("a function of torch", "add", cell("add = torch.add", "import torch"),
            "", "not-a-kernel"),
    Attempt("an object that compares equal to everything", "add",
            cell("add = Anything()", """
            class Anything:
                __name__ = "add"
                arg_names = ["x_ptr", "y_ptr", "z_ptr", "n", "BLOCK"]
                def __eq__(self, other):
                    return True
                def __getattr__(self, name):
                    return self
            """), "", "not-a-kernel"),
]  # fmt: skip
"""Kernels whose results are wrong, or whose work is not what the task says."""


def _reason(name: str) -> tuple[str, str]:
    return ("", "ended-process") if "process's" in name else ("safe", "wrong-result")


def _lie(name: str) -> tuple[str, str]:
    kinds = {
        "the answer is not one": "ended-process",
        "the module has another signature": "kernel-lab-error",
    }
    return "", kinds.get(name, "invalid-module")


ATTEMPTS = [
    *(Attempt(name, "add", running(code), *_reason(name)) for name, code in PATCHES.items()),
    *(Attempt(name, "add", add("x + y", above=code), *_lie(name)) for name, code in _LIES.items()),
    *CALLS,
    *WRONG,
]
