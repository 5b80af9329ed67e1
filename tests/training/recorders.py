"""A recorder that needs no GPU: what it records are the calls, and a replay makes them again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from vrtspike.training.step_graph import Terms


class CallRecording:
    """Work that is called again for each replay; its terms stand in tensors of its own."""

    def __init__(self, recorder: CallRecorder, work: Callable[[], Terms]) -> None:
        self._recorder, self._work = recorder, work

    def replay(self) -> Terms:
        self._recorder.replays += 1
        return self._work()


class CallRecorder:
    """Counts recordings, replays and releases."""

    def __init__(self) -> None:
        self.recordings = self.replays = self.releases = 0

    def record(self, work: Callable[[], Terms]) -> CallRecording:
        self.recordings += 1
        return CallRecording(self, work)

    def beside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def release(self) -> None:
        self.releases += 1
