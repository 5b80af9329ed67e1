"""A request to stop, from a batch system, a scheduler or a person."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Self

from vrtspike.endings import is_ignored

EXIT_INTERRUPTED = 75
"""Exit status of a run that was asked to stop and has saved its state (EX_TEMPFAIL): continue."""

STOPS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)
"""Signals that ask a run to stop; SIGHUP, when the terminal is closed, unless it is ignored."""

ORPHANED = signal.SIGUSR2
"""Tells ``torchrun``, and through it the training processes, that the launcher has died."""

HEEDED = (*STOPS, ORPHANED)
"""Signals at which a training process ends its step, saves and leaves."""


class StopRequest:
    """Notes the signals that ask to stop; the loop looks between two steps.

    Within the ``with`` block the signals do nothing else; a step is never cut in half.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Self:
        """Start listening."""
        for number in heeded():
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back to whom they belonged."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name


def heeded() -> list[signal.Signals]:
    """:data:`HEEDED` without SIGHUP where someone (``nohup``) has seen to it that it is ignored."""
    kept_away = {signal.SIGHUP} if is_ignored(signal.SIGHUP) else set()
    return [number for number in HEEDED if number not in kept_away]


def ignore(numbers: Iterable[signal.Signals]) -> None:
    """Have signals do nothing to this process, nor to its children until they heed them."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def hold_back(numbers: Iterable[signal.Signals]) -> None:
    """Have signals wait, for this process and its children, until they :func:`heed_stops`.

    Unlike an ignored signal, one that comes while a child still starts is not lost.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


def heed_stops() -> None:
    """Undo a parent's :func:`ignore` or :func:`hold_back` of :data:`STOPS`."""
    for number in STOPS:
        if number is not signal.SIGHUP or not is_ignored(number):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
