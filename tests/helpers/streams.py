"""Outputs of tests."""

from __future__ import annotations

import io


class PieceRecorder(io.StringIO):
    """An output that keeps what each call writes: another thread may write between two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.flushed = 0

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return super().write(text)

    def flush(self) -> None:
        self.flushed = len(self.pieces)
