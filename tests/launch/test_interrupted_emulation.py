"""Ctrl-C at any moment of `interpreted(answers="gpu")` leaves torch and Triton as they were."""

import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import pytest
import torch

import kernellab
from kernellab.common.system import InterruptsBetween
from tests.kernels import third_party
from tests.support.torch_state import state_of_torch

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU answers for itself"),
    pytest.mark.usefixtures("ctrl_c"),
]

A_MOMENT = 4e-3
"""Seconds after which a Ctrl-C that waited has counted."""


def use_a_gpu() -> None:
    """A bit of everything: a launch, autocast, a backward pass, random numbers, sparse tensors."""
    with kernellab.interpreted(answers="gpu"):
        gate, up = torch.randn(2, 100, device="cuda").unbind()
        out = torch.empty_like(gate)
        third_party._gated_kernel[(2,)](gate, up, out, 100, BLOCK=64)
        with torch.autocast("cuda"):
            (gate[None] @ up[:, None]).sum()
        up.requires_grad_()
        (up * out).sum().backward()
        torch.eye(3, device="cuda").to_sparse().cpu()


def interrupted(delays: Sequence[float]) -> bool:
    """Whether Ctrl-C, after each of these delays in seconds, stops the use of a GPU."""

    def press() -> None:
        for delay in delays:
            until = time.perf_counter() + delay
            while time.perf_counter() < until:
                time.sleep(0)
            os.kill(os.getpid(), signal.SIGINT)

    was_stopped = False
    pressing = threading.Thread(target=press)
    pressing.start()
    try:
        use_a_gpu()
    except KeyboardInterrupt:
        was_stopped = True
    pressing.join()
    time.sleep(A_MOMENT)
    return was_stopped


def stop_the_use(_number: int, frame: FrameType | None) -> None:
    """A handler of Ctrl-C that does as Python's own, but only while a GPU is used."""
    codes = {one.f_code for one, _ in traceback.walk_stack(frame)} if frame else set()
    if frame is None or use_a_gpu.__code__ in codes:
        raise KeyboardInterrupt


@pytest.fixture
def stops_the_use() -> Iterator[None]:
    before, interval = signal.signal(signal.SIGINT, stop_the_use), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that the thread that presses is on time
    yield
    sys.setswitchinterval(interval)
    signal.signal(signal.SIGINT, before)


def is_changed(one: Any, other: Any) -> bool:
    return one is not other and bool(one != other)


@pytest.mark.slow  # how many interrupts are on time depends on the load
def test_nothing_is_left_behind(stops_the_use) -> None:
    tries = 1000
    use_a_gpu()  # what is imported and remembered in the first use
    started = time.perf_counter()
    use_a_gpu()
    takes = time.perf_counter() - started
    generator = random.Random(7)
    before, stopped = state_of_torch(), 0
    for number in range(tries):
        delays = [generator.uniform(0, takes)]
        if generator.random() < 0.5:  # three in a row
            delays += [generator.choice([0.0, 1e-5, 1e-4, takes / 5]) for _ in range(2)]
        stopped += interrupted(delays)
        after = state_of_torch()
        both = {name: (before.get(name), after.get(name)) for name in before | after}
        changed = {name: values for name, values in both.items() if is_changed(*values)}
        assert not changed, (number, delays, str(changed))
    assert stopped > tries / 2
    use_a_gpu()


def test_ctrl_c_counts_within_the_block() -> None:
    went_on = False
    try:
        with kernellab.interpreted(answers="gpu"):
            signal.raise_signal(signal.SIGINT)
            went_on = True
    except KeyboardInterrupt:
        assert not went_on
    else:
        pytest.fail("the interrupt did not count")


def test_another_handler_stays() -> None:
    seen: list[int] = []

    def own(number: int, _frame: Any) -> None:
        seen.append(number)

    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, own)
        with kernellab.interpreted(), kernellab.interpreted(answers="gpu"):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is own
        with kernellab.interpreted():
            signal.signal(signal.SIGINT, before)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_it_counts_when_what_is_half_done_is_done() -> None:
    done: list[str] = []

    def half_done() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("the rest")

    interrupts = InterruptsBetween((half_done.__code__,), ())
    assert interrupts.begin()
    half_done()
    with pytest.raises(KeyboardInterrupt):
        interrupts.end()
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
