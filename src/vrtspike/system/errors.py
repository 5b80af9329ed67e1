"""The errors a user can cause and can fix.

Each message names the file, key or frame, what was found, what was expected and what to do.
Programs print such an error without a traceback and exit with :data:`EXIT_USER_ERROR`; everything
else is a defect of this project and keeps its traceback.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable, Mapping, Sequence

EXIT_USER_ERROR = 2

_NO_TEXT = re.compile("[\ud800-\udfff]")
"""Surrogates, which Python has for the bytes of a name that are not UTF-8."""


class UserError(Exception):
    """Error that the user can fix."""


class ConfigError(UserError):
    """Error in a configuration file, a preset or an override."""


class DataError(UserError):
    """Error of a raw file, a sequence or a store: missing, broken, or no match for its partner."""


class RunError(UserError):
    """Error of a run, a file of weights, a device or another program."""


def is_disk_full(error: OSError) -> bool:
    """Return whether a write failed for lack of space, on the disk or in the user's quota."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def describe_full_disk(error: OSError) -> str:
    """Describe the fault and the remedy after :func:`is_disk_full`: a clause and an imperative."""
    if error.errno == errno.EFBIG:
        return f"the file may not grow further ({error.strerror}); raise the limit (ulimit -f)"
    return f"the disk is full ({error.strerror}); free space"


def install_advice(extra: str) -> str:
    """Return the command that installs the packages of an extra of ``pyproject.toml``.

    The package is installed already, from a clone or a wheel, and stays as it is.

    >>> install_advice("hub")
    "pip install 'vrtspike[hub]'"
    >>> install_advice("")
    'pip install vrtspike'
    """
    package = f"'vrtspike[{extra}]'" if extra else "vrtspike"
    return f"pip install {package}"


def list_faults(title: str, faults: Sequence[str], advice: str, *, limit: int | None = None) -> str:
    """Return one message for many faults: a title with their number, a line each, and what to do.

    Args:
        title: the subject of the faults.
        faults: all of them.
        advice: sentence that says what to do.
        limit: largest number of listed faults, followed by the number of the others; None for all.

    >>> print(list_faults("a.yaml", ["K is 0", "no ROOT"], "Fix them.", limit=1))
    a.yaml (2):
      - K is 0
      ... and 1 more
    Fix them.
    """
    lines = [f"  - {fault}" for fault in faults[:limit]]
    if len(lines) < len(faults):
        lines.append(f"  ... and {len(faults) - len(lines)} more")
    return "\n".join([f"{title} ({len(faults)}):", *lines, advice])


def named_faults(faults: Mapping[str, Sequence[str]]) -> list[str]:
    """Return all faults, each after the name of its subject.

    >>> named_faults({"train/a": ["no frames"], "train/b": []})
    ['train/a: no frames']
    """
    return [f"{name}: {fault}" for name, of_name in faults.items() for fault in of_name]


def first_few(names: Sequence[str], limit: int = 3) -> str:
    """Return the first of many names, for a message in a line.

    >>> first_few(["a.py", "b.py", "c.py", "d.py"])
    'a.py, b.py, c.py, and 1 more'
    """
    listed = ", ".join(names[:limit])
    if len(names) <= limit:
        return listed
    return f"{listed}, and {len(names) - limit} more"


def nearest_name(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name nearest to a mistyped one; None if none is near.

    Args:
        name: name as it was typed; case is ignored.
        names: names to choose from.
        cutoff: lowest similarity, from 0 to 1 (``difflib.SequenceMatcher.ratio``); 0 accepts any
            name.

    >>> nearest_name("RESTOR", ["restore", "export"])
    'restore'
    """
    by_lower_case = {candidate.lower(): candidate for candidate in names}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=cutoff)
    if not matches:
        return None
    return by_lower_case[matches[0]]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of an error message: the nearest name; empty without one.

    >>> did_you_mean("restor", ["restore", "export"])
    '; did you mean restore?'
    >>> did_you_mean("tarin", ["doctor"])
    ''
    """
    near = nearest_name(name, names)
    if near is None:
        return ""
    return f"; did you mean {near}?"


def printable(name: str) -> str:
    r"""Return a name as it can be written and printed, bytes that are not UTF-8 escaped.

    >>> printable(os.fsdecode(b"caf\xe9"))
    'caf\\xe9'
    """
    return os.fsencode(name).decode(errors="backslashreplace")


def is_text(name: str) -> bool:
    """Return whether a name is UTF-8, as the names in manifests, stores and results have to be."""
    return _NO_TEXT.search(name) is None
