"""The recorded faults of asynchronous kernels are those that the tests of the check have."""

import json

from benchmarks.missing_waits import RECORDED, cases


def test_the_record_has_the_faults_of_its_kernels() -> None:
    rows = json.loads(RECORDED.read_text())["cases"]
    kernels = {row["kernel"] for row in rows}
    recorded = {(row["kernel"], row["fault"]) for row in rows}
    assert recorded == {case for case in cases() if case[0] in kernels}
    outcomes = {row["fault"] and row["plain"]["outcome"] for row in rows}
    assert {"right", "wrong", "hangs", "CUDA error"} <= outcomes
    assert all(row["plain"]["outcome"] == "right" for row in rows if not row["fault"])
