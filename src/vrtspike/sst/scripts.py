"""Worker processes of scripts that have no ``if __name__ == "__main__":``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def workers_without_script(*needed: Callable[..., object]) -> Iterator[None]:
    """Keep worker processes from running the script that starts them.

    Python has every worker import the program's script first, because what the worker is sent may
    be defined there. Many a script trains at its top level; each of its workers would train again.

    Args:
        needed: the classes of what workers are sent. Where one of them stands in the script itself,
            workers do need it, and it needs the line.
    """
    main = sys.modules["__main__"]
    if any(part.__module__ == "__main__" for part in needed):
        yield
        return
    hidden = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    main.__spec__ = None
    main.__dict__.pop("__file__", None)
    try:
        yield
    finally:
        vars(main).update(hidden)
