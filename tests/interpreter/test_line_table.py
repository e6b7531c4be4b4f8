"""Lines of generated code: what has none is passed without a stop, on every version of Python."""

from __future__ import annotations

import ast
import re
import sys
from types import CodeType, FrameType, FunctionType
from typing import Any

from kernellab.interpreter.codegen.stepping_emitter import NO_LINE, without_made_up_lines

SOURCE = """\
def f(n):  # 9
    a = 0  # 10
    for i in range(n):  # 11
        a += i  # 12
        if a > 1:  # 13
            r = a  # 14
        else:  # 15
            r = -a  # 16
        c = r  # none
    j = 0  # 18
    while True:  # 19
        t = j < 2  # 19
        d = c  # 19
        if not t:  # 19
            break  # 19
        j = j + 1  # 20
        c = d  # 20
    if n:  # none
        return j  # 22
"""


def compiled() -> CodeType:
    """The function, its statements at the lines that the comments say."""
    said = re.findall(r"# (\w+)", SOURCE)
    tree = ast.parse(SOURCE)
    for node in ast.walk(tree):
        if "lineno" in node._attributes:
            line = said[node.lineno - 1]  # type: ignore[attr-defined]
            number = NO_LINE if line == "none" else int(line)
            vars(node).update(lineno=number, end_lineno=number, col_offset=3, end_col_offset=10_007)
    code = compile(tree, "kernel.py", "exec")
    return next(one for one in code.co_consts if isinstance(one, CodeType))


def test_lines_without_a_source_are_passed() -> None:
    code = without_made_up_lines(compiled())
    lines: list[int] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        lines.extend([frame.f_lineno] if event == "line" else [])
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = FunctionType(code, {"range": range})(3)
    finally:
        sys.settrace(before)
    assert result == 2
    loop = [11, 12, 13, 16]
    assert lines == [10, *loop, *loop, 11, 12, 13, 14, 11, 18, 19, 20, 19, 20, 19, 22]


def test_all_else_stays_where_it_was() -> None:
    code, given = without_made_up_lines(compiled()), compiled()
    kept = [one for one in given.co_positions() if one[0] is not None and one[0] < NO_LINE]
    assert set(code.co_positions()) <= {*kept, (None, None, None, None)}
    assert {line for *_, line in code.co_lines() if line} == {*range(9, 15), 16, 18, 19, 20, 22}
    assert (code.co_firstlineno, code.co_code) == (given.co_firstlineno, given.co_code)
