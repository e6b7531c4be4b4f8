"""`with kernellab.profile() as p`: what is launched inside is profiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

from kernellab.common.argument_checks import is_real
from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError, ProfileError
from kernellab.profiling.profiles.profile import Profile

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Measuring(Protocol):
    """Who measures: Proton, the interpreter, or both.

    Attributes:
        interpreted: after `finish`, the profile of the launches on the interpreter, where the
            session's own profile is of launches on the GPU; else None.
    """

    interpreted: Profile | None

    def activate(self) -> None:
        """Begin, or go on."""

    def deactivate(self) -> None:
        """Pause."""

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        """A scope begins."""

    def leave(self) -> None:
        """The innermost scope ends."""

    def finish(self, name: str) -> Profile:
        """End, with everything that was measured."""


class ProfileSession:
    """A profile that is being measured: a context, or `start()` and `stop()`. When it is over, it
    answers as its profile does: `p.table()`, `p.tree()`, `p.lines`.

    Attributes:
        interpreted: the profile of the launches on the interpreter, where there were launches on
            the GPU too; else None.
    """

    interpreted: Profile | None = None

    def __init__(self, measuring: Callable[[], Measuring], name: str = "") -> None:
        self.name = name
        self._make = measuring
        self._measuring: Measuring | None = None
        self._profile: Profile | None = None
        self._state: Literal["new", "active", "paused", "over"] = "new"

    # From start to stop

    def start(self) -> ProfileSession:
        """Begin to measure.

        Raises:
            ProfileError: nothing can be measured here; the session was started before.
        """
        if self._state != "new":
            raise ProfileError(
                f"This session was started before: it is {self._state}.",
                advice="Use activate() after deactivate(). Call kernellab.profile() again for "
                "another profile.",
            )
        measuring = self._make()
        measuring.activate()
        self._measuring, self._state = measuring, "active"
        return self

    def activate(self) -> None:
        """Go on after `deactivate`.

        Raises:
            ProfileError: the session was not started, or is over.
        """
        measuring = self._running("activate")
        if self._state == "paused":
            measuring.activate()
            self._state = "active"

    def deactivate(self) -> None:
        """Leave out what is launched from now on.

        Raises:
            ProfileError: as `activate`.
        """
        measuring = self._running("deactivate")
        if self._state == "active":
            self._state = "paused"
            measuring.deactivate()

    def stop(self) -> Profile:
        """End the session; the profile. Stopped again, it is the same.

        Raises:
            ProfileError: the session was not started, or nothing could be read.
        """
        if self._profile is None:
            measuring = self._running("stop")
            self._state = "over"
            self._profile = measuring.finish(self.name)
            self.interpreted = measuring.interpreted
        return self._profile

    finalize = stop

    def __enter__(self) -> ProfileSession:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._state == "over":
            return
        if error is None:
            self.stop()
        else:  # which goes on; a profile that cannot be read shall not hide it
            with suppress(ProfileError):
                self.stop()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """As a decorator: calls of the function are profiled, all in this session."""

        @functools.wraps(function)
        def called(*args: _P.args, **keywords: _P.kwargs) -> _R:
            if self._state == "new":
                self.start()
            else:
                self.activate()
            try:
                return function(*args, **keywords)
            finally:
                self.deactivate()

        return called

    # Scopes

    @contextmanager
    def scope(self, name: str, **metrics: float) -> Iterator[None]:
        """A scope with a name and metrics of the user's choice: `with p.scope("step", loss=0.3)`.

        Raises:
            ArgumentError: the name is not a string, or a metric is not a number.
            ProfileError: the session is not running.
        """
        if not isinstance(name, str):
            raise ArgumentError(f"the name of a scope must be a string, got {shown(name)}")
        for key, value in metrics.items():
            if not is_real(value) and not hasattr(value, "data_ptr"):
                raise ArgumentError(
                    f"the metric {key!r} of scope {name!r} must be a number, got {shown(value)}"
                )
        measuring = self._running("scope")
        measuring.enter(name, metrics)
        try:
            yield
        finally:
            if self._state != "over":
                measuring.leave()

    # Afterwards

    @property
    def profile(self) -> Profile:
        """What was measured.

        Raises:
            ProfileError: the session is not over yet.
        """
        if self._profile is None:
            raise ProfileError(
                "The profile is not there yet: the session is not over."
                if self._state in ("active", "paused")
                else "There is no profile: the session was not started."
                if self._state == "new"
                else "There is no profile: what was measured could not be read.",
                advice="Leave the block `with kernellab.profile() as p:`, or call p.stop().",
            )
        return self._profile

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not hasattr(Profile, name) and name not in Profile.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.profile, name)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        if self._profile is None:
            return {"text/plain": repr(self)}
        return self._profile._repr_mimebundle_(include, exclude)

    def __str__(self) -> str:
        return repr(self) if self._profile is None else str(self._profile)

    def __repr__(self) -> str:
        return f"<profile session, {self._state}>"

    def _running(self, what: str) -> Measuring:
        if self._measuring is None or self._state == "over":
            raise ProfileError(
                f"{what}: the session {'is over' if self._state == 'over' else 'is not started'}.",
                advice="Start a session: use `with kernellab.profile() as p:`, or call p.start().",
            )
        return self._measuring
