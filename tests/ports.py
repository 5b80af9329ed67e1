"""Ports for processes that shall meet on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def free_port() -> Iterator[int]:
    """A port that nobody else is given within the block.

    It stays bound without listening; with SO_REUSEADDR on both sides, as PyTorch's stores have it,
    Linux lets one other socket listen there, but hands the port to nobody who asks for any.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
