"""What was found about the code of a program, kept beside its bytecode while no source changes.

Every call of Snakemake asks for the code behind all programs, and on a cluster every job does. To
take 300 source files apart takes a second, to read them a few milliseconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from vrtspike.files import write_json


def remembered(entry: Path, package: Path, question: str, answer: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON value
    """The answer to a question about a program, given anew when any source file is another.

    It stands where Python keeps the program's bytecode, and holds for the contents of all source
    files, whatever their dates.

    Args:
        entry: the program; it may use the files in its folder.
        package: folder of the package that it may use.
        question: tells this question from others about the program.
        answer: finds the answer, a JSON value.
    """
    sources = _once(entry.parent, package)
    file = Path(cache_from_source(str(entry))).with_suffix(".code.json")
    known = _read(file, sources)
    if question not in known:
        known[question] = answer()
        if _sources(entry.parent, package) != sources:
            return known[question]  # someone edits at this moment: it may be of either version
        with contextlib.suppress(OSError):  # a read-only folder: found again next time
            write_json(file, {"sources": sources, "answers": known})
    return known[question]


def _read(file: Path, sources: str) -> dict[str, Any]:
    """The answers for these sources; none where nothing readable is there."""
    try:
        found = json.loads(file.read_bytes())
        return dict(found["answers"]) if found["sources"] == sources else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _sources(*folders: Path) -> str:
    """Digest of the names and contents of all source files in these folders, and of Python."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            contents = path.read_bytes()
            name = path.relative_to(folder.parent).as_posix()
            digest.update(f"{name}\0{len(contents)}\0".encode())
            digest.update(contents)
    return digest.hexdigest()


_once = cache(_sources)
