"""Files that would take forever, or all memory, within the limits of `fuzzed_files`."""

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy

from tests.support.fuzzed_files import KINDS

Change = Callable[[Any], Any]
"""Changes the JSON value of a good file in place, or returns another."""


class HostileFile(NamedTuple):
    kind: str
    content: Callable[[], bytes]


def _changed(kind: str, change: Change) -> HostileFile:
    def content() -> bytes:
        good = KINDS[kind].content()
        is_packed = good.startswith(b"\x1f\x8b")
        data = json.loads(gzip.decompress(good) if is_packed else good)
        other = change(data)
        text = json.dumps(data if other is None else other).encode()
        return gzip.compress(text, 6) if is_packed else text

    return HostileFile(kind, content)


def _text(kind: str, content: Callable[[], str]) -> HostileFile:
    return HostileFile(kind, lambda: content().encode())


_LONG = "9" * 5_000
_LOC = '#loc1 = loc("a.py":1:1)\n'
_PTX = '.file 1 "a.py"\n'

_ANY_STAGE: Mapping[str, Callable[[], str]] = {
    "60 MB of empty lines": lambda: "\n" * 60_000_000,
    "60 MB on a line": lambda: "a" * 60_000_000,
    "many operations": lambda: "  %1 = arith.addi %0, %0 : i32 loc(#loc1)\n" * 500_000 + _LOC,
}
_STAGES: Mapping[tuple[str, str], Callable[[], str]] = {
    **{
        (stage, name): text
        for name, text in _ANY_STAGE.items()
        for stage in ("ttir", "ttgir", "llir", "ptx")
    },
    **{
        ("ptx", f"{lines:,} lines"): lambda lines=lines: _PTX  # type: ignore[misc]
        + "\t.loc 1 5 3\n\tadd.s32 %r1, %r2, %r3;\n" * (lines // 2 - 1)
        for lines in (300_000, 800_000)
    },
    ("ptx", "form feeds"): lambda: "\f" * 2_000_000,
    ("ptx", "inlined lines"): lambda: _PTX
    + "".join(
        f"\t.loc 1 5 3, function_name $L{n}, inlined_at 1 {n} 1\n\tadd.s32 %r1, %r2, %r3;\n"
        for n in range(50_000)
    ),
    ("ptx", "digits"): lambda: (
        f"{_PTX}\t.loc 1 {_LONG} 3\n\t.loc {_LONG} 3 3\nadd;\n .reqntid {_LONG}\n"
        f".maxntid {_LONG}\n .extern .shared .align 16 .b8 g[{_LONG}];"
    ),
    ("llir", "digits"): lambda: f"x !dbg !{_LONG}\n!{_LONG} = !DILocation(line: 1, scope: !1)\n",
    ("ttgir", "digits"): lambda: (
        f'module attributes {{"ttg.num-warps" = {_LONG} : i32, ttg.shared = {_LONG} : i32}} {{\n'
        f'%0 = tt.load loc(#loc{_LONG})\n}}\n#loc = loc("a.py":{_LONG}:1)\n'
        f"#blocked = #ttg.blocked<{{sizePerThread = [{_LONG}]}}>"
    ),
    ("ttgir", "deep regions"): lambda: (
        f"module {{ tt.func public @k(%c: i1) {{{'scf.if %c {' * 20_000}{'}' * 20_000} }} }}"
    ),
}  # fmt: skip


def _with_stage(stage: str, text: Callable[[], str]) -> Change:
    def change(data: Any) -> None:
        (chosen,) = (one for one in data["stages"] if one["name"] == stage)
        data["texts"][chosen["text"]] = text()

    return change


def _lines_in_each_text(data: Any) -> None:
    data["texts"] = ["x\n" * 150_000 + str(n) for n in range(len(data["texts"]))]


def _function(**fields: Any) -> Change:
    return lambda data: data["functions"][0].update(fields)


def _nested(depth: int) -> Any:
    return {"tuple": [_nested(depth - 1)]} if depth else 1


def _many_remarks(data: Any) -> None:
    place = ["a.py", 1, 1]
    remark = {"severity": "remark", "what": "x" * 100, "origin": "mlir", "span": place}
    data["remarks"] = [{**remark, "called_from": [place] * 50}] * 20_000


def _large_cubin(data: Any) -> None:
    for stage in data["stages"]:
        if stage["name"] == "cubin":
            stage["base64"] = base64.b64encode(b"\x7fELF" + b"\0" * 30_000_000).decode()


def _late_lines(data: Any) -> None:
    for chain in data["source_map"]["chains"]:
        chain[1::3] = [299_000] * len(chain[1::3])


def _names_of_javascript(data: Any) -> None:
    for run in data["passes"]:
        run.update(name="__proto__", stage="constructor")


COMPILATIONS: Mapping[str, Change] = {
    **{f"{stage}: {name}": _with_stage(stage, text) for (stage, name), text in _STAGES.items()},
    "150,000 lines in each text": _lines_in_each_text,
    "many functions": lambda d: d.update(
        functions=[{**d["functions"][0], "first_line": n + 1} for n in range(50_000)]
    ),
    "a long function": _function(lines=["x"] * 290_000, first_line=1),
    "a late function": _function(first_line=290_000),
    "late lines": _late_lines,
    "no links": lambda d: d["source_map"].update(links={}),
    "many passes": lambda d: d.update(
        passes=[{**d["passes"][n % len(d["passes"])], "occurrence": n + 1} for n in range(20_000)]
    ),
    "names of JavaScript": _names_of_javascript,
    "many remarks": _many_remarks,
    "many operations": lambda d: d.update(
        op_counts=[{f"op{n}": 1 for n in range(100_000)}] * len(d["op_counts"])
    ),
    "a large binary": _large_cubin,
    "a nested constant": lambda d: d["specialization"].update(
        constants=[[{"tuple": [0]}, _nested(50)]]
    ),
    "a long constant": lambda d: d["specialization"].update(constants=[[{"tuple": [0]}, 10**99]]),
    "many options": lambda d: d.update(options=[[f"o{n}", ["x"] * 100] for n in range(10_000)]),
    "many parameters": lambda d: d["specialization"].update(
        signature=[[f"a{n}", "*fp32"] for n in range(100_000)]
    ),
    "many chains": lambda d: d["source_map"].update(chains=[[0, 1, 1]] * 300_000),
    "long chains": lambda d: d["source_map"].update(
        chains=[[0, 1, 1] * 20_000] * 3 + d["source_map"]["chains"][3:]
    ),
}


def _levels(data: Any) -> list[Any]:
    if isinstance(data, list):
        return [level for part in data for level in _levels(part)]
    if not isinstance(data, dict):
        return []
    own = [data] if "nodes" in data and "text" in data else []
    return own + [level for part in data.values() for level in _levels(part)]


def _many_nodes(data: Any) -> None:
    for level in _levels(data)[:4]:
        if level["nodes"]:
            last = level["nodes"][-1]
            level["nodes"] += [{**last, "name": f"q{n}"} for n in range(50_000)]


REPORTS: Mapping[str, Change] = {
    "many nodes": _many_nodes,
    "60 MB of text": lambda d: _levels(d)[0].update(text="x = y\n" * 9_000_000),
    "2,000,000 lines": lambda d: _levels(d)[0].update(text="x = y\n" * 2_000_000),
}


def _children(children: list[Any]) -> Change:
    return lambda data: data[0].update(children=children)


def _scope(name: str, *children: Any, **metrics: float) -> dict[str, Any]:
    return {"frame": {"name": name}, "metrics": metrics, "children": list(children)}


def _kernel(name: str, **metrics: float) -> dict[str, Any]:
    return _scope(name, **{"time (ns)": 5, "count": 1}, **metrics)


def _deep_tree() -> Any:
    scope = _kernel("k")
    for level in range(30):
        scope = _scope(f"s{level}", *[scope] * (2 if level < 14 else 1))
    return scope


HATCHETS: Mapping[str, Change] = {
    "long numbers": _children([_kernel("k", bytes=10**99)]),
    "negative numbers": _children([_kernel("k", bytes=-1e299)] * 9),
    "names": _children(
        [_kernel(name) for name in ("__proto__", "constructor", "a\nb", "\x1b[2J", "x" * 100_000)]
    ),
    "many kernels": _children([_kernel(f"k{n}") for n in range(12_000)]),
    "many metrics": _children(
        [_kernel(f"k{n}", **{f"m{n}_{i}": i for i in range(300)}) for n in range(200)]
    ),
    "a deep tree of 65,000": lambda d: d[0].update(children=[_deep_tree()]),
    "many devices": lambda d: [
        d[0],
        {"CUDA": {str(n): {"arch": "9" * 100, "num_sms": -1} for n in range(10_000)}},
    ],
}


def _event(name: str, start: float, **fields: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": 1, **fields}


TRACES: Mapping[str, Callable[[], list[Any]]] = {
    "no ends": lambda: [_event("a", n, ph="B", pid=[1] * 10) for n in range(10_000)],
    "many tracks": lambda: [_event(f"n{n}", n, pid=n, tid=n) for n in range(12_000)],
    "nested": lambda: [_event(f"n{n}", n, dur=40_000 - 2 * n) for n in range(12_000)],
    "out of range": lambda: [_event("n", -1e14, dur=-1e14), _event("n", 1e14, dur=1e14)] * 10,
}


def _many_events(count: int) -> Change:
    def change(data: Any) -> None:
        events, zeros = data["profile"]["events"], base64.b64encode(bytes(8 * count)).decode()
        events.update(dict.fromkeys(("warp", "scope", "start"), zeros))
        places = base64.b64encode(numpy.arange(count, dtype="<i8").tobytes()).decode()
        events.update(program=places, end=places)

    return change


def _repeated(part: str, count: int) -> Change:
    def change(data: Any) -> None:
        first, *rest = data["profile"][part]
        last = rest[-1] if rest else first
        numbered = {"scopes": "name", "lines": "function"}.get(part)
        made = [{**last, **({numbered: f"x{n}"} if numbered else {})} for n in range(count)]
        data["profile"][part] = [first, *made]

    return change


def _many_kernels_of_lines(data: Any) -> None:
    line = data["profile"]["lines"][0]
    data["profile"]["lines"] = [{**line, "kernel": f"k{n}"} for n in range(10_000)]
    kernel = data["profile"]["kernels"][0]
    data["profile"]["kernels"] = [{**kernel, "name": f"k{n}"} for n in range(10_000)]


PROFILES: Mapping[str, Change] = {
    **{f"many {part}": _repeated(part, 100_000) for part in ("scopes", "lines", "kernels")},
    **{f"{count:,} events": _many_events(count) for count in (200_000, 2_000_000)},
    "lines of many kernels": _many_kernels_of_lines,
    "a long source": lambda d: d["profile"]["kernels"][0].update(source="\n" * 7_000_000),
    "long notes": lambda d: d["profile"].update(notes=["\x1b[2J" * 1_000] * 1_000),
    "a long name": lambda d: d["profile"].update(name="\0" * 100_000),
    "many names of events": lambda d: d["profile"]["events"].update(
        names=[f"tt.load{n}" for n in range(100_000)]
    ),
}


def _machine(data: Any) -> None:
    machine = data["tunings"][0]["machine"]
    words = [name for name, value in machine.items() if isinstance(value, str)]
    machine.update(dict.fromkeys(words, "\x1b[2J</script>" * 1_000))


def _trials(change: Callable[[int, Any], dict[str, Any]], count: int) -> Change:
    def changed(data: Any) -> None:
        tuning = data["tunings"][0]
        tuning["trials"] = [
            {**tuning["trials"][0], **change(n, tuning["trials"][0])} for n in range(count)
        ]

    return changed


SWEEPS: Mapping[str, Change] = {
    "many trials": _trials(lambda n, _: {"number": n}, 2_000),
    "many constants": _trials(
        lambda n, trial: {"constants": {f"C{n}_{i}": 1 for i in range(50)}}, 300
    ),
    "names of JavaScript": _trials(
        lambda n, trial: {"constants": {"__proto__": n, "constructor": 2, **trial["constants"]}}, 9
    ),
    "a machine's texts": _machine,
}


_DUMP = "// -----// IR Dump Before {0} ({0}) ('builtin.module' operation) //----- //\n{1}"
_TABLE = '"Kernel Name","k"\n"Address","Source","# Samples"'

TEXTS: Mapping[tuple[str, str], Callable[[], str]] = {
    ("dump", "many passes"): lambda: "".join(
        _DUMP.format(f"P{n}", "module {}\n") for n in range(9_000)
    ),
    ("dump", "long modules"): lambda: "".join(
        _DUMP.format(f"P{n}", f"module {{\n{lines}}}\n")
        for n in range(3)
        for lines in ["".join(f"%{n} = x{i * i % 97}\n" for i in range(20_000))]
    ),
    ("dump", "digits"): lambda: 2 * _DUMP.format("P", f'#loc = loc("a":{_LONG}:1)\nmodule {{}}\n'),
    ("profile", "a long field"): lambda: f'{_TABLE}\n"10","{"N" * 500_000}","1"\n',
    ("profile", "many columns"): lambda: (
        f'{_TABLE}{",c" * 100_000}\n"10","NOP","1"{",1" * 100_000}\n'
    ),
    ("profile", "digits"): lambda: f'{_TABLE}\n"{_LONG}","NOP","{_LONG}"\n',
    ("profile", "many rows"): lambda: f"{_TABLE}\n" + '"10","NOP","1"\n' * 60_000,
    ("profile", "many kernels"): lambda: f'{_TABLE}\n"10","NOP","1"\n' * 9_000,
    ("profile", "quotes"): lambda: '"' * 900_000,
    ("layout", "nested"): lambda: "#ttg.slice<{dim = 0, parent = " * 5_000,
    ("layout", "digits"): lambda: f"#ttg.blocked<{{sizePerThread = [{_LONG}]}}>",
    ("layout", "a large tile"): lambda: (
        "#ttg.blocked<{sizePerThread = [1073741824], threadsPerWarp = [32], warpsPerCTA = [4], "
        "order = [0]}>"
    ),
    ("notebook", "many answers"): lambda: json.dumps(
        {"cells": [{"cell_type": "code", "source": "%%tileexercise softmax\nx"}] * 20_000}
    ),
    ("notebook", "a long line"): lambda: json.dumps(
        {"cells": [{"cell_type": "code", "source": f"%%tileexercise {'softmax ' * 100_000}\nx"}]}
    ),
    ("notebook", "brackets"): lambda: json.dumps(
        {"cells": [{"cell_type": "code", "source": f"x = {'(' * 5_000}\n-{'-' * 100_000}1"}]}
    ),
    ("progress", "many exercises"): lambda: json.dumps(
        {f"e{n}": ["compiles", 3] for n in range(50_000)}
    ),
    ("cache", "many CTAs"): lambda: json.dumps(
        {
            **json.loads(KINDS["cache"].content()),
            "num_warps": 2**20, "num_ctas": 2**20, "cluster_dims": [0] * 100_000,
        }
    ),
}  # fmt: skip


FILES: Mapping[str, HostileFile] = {
    **{
        f"{kind}: {name}": _changed(kind, change)
        for kind, changes in {
            "compilation": COMPILATIONS, "report": REPORTS, "hatchet": HATCHETS,
            "whole profile": PROFILES, "sweep": SWEEPS,
        }.items()
        for name, change in changes.items()
    },
    **{
        f"Chrome's trace: {name}": _text(
            "Chrome's trace", lambda events=events: json.dumps({"traceEvents": events()})  # type: ignore[misc]
        )
        for name, events in TRACES.items()
    },
    **{f"{kind}: {name}": _text(kind, text) for (kind, name), text in TEXTS.items()},
}  # fmt: skip
