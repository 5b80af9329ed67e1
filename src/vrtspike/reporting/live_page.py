"""The page of a running training: an HTML file that requests the run's state at intervals."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from vrtspike.io.images import read_rgb
from vrtspike.reporting.live_state import Snapshot
from vrtspike.reporting.live_text import live_facts, live_heading
from vrtspike.reporting.offline_page import render_offline, script_json
from vrtspike.reporting.picture_encoding import encode

SCRIPTS = ("dom.js", "charts.js", "saving.js", "live.js")
_SIDE_AND_QUALITY = (1280, 76)
"""Longest side in pixels of a picture, and its quality as WebP."""


def live_contents(snapshot: Snapshot) -> dict[str, Any]:
    """The state of a run as ``live.js`` reads it: a JSON value, with pictures as WebP in base64.

    Raises:
        DataError: if a picture cannot be read.
    """
    share = snapshot.step / snapshot.total_steps if snapshot.total_steps else None
    files = {
        name: _encode(path, path.stat().st_mtime_ns) for name, path in snapshot.pictures.items()
    }
    return {
        "name": snapshot.name,
        "heading": live_heading(snapshot),
        "facts": live_facts(snapshot),
        "share": share,
        "has_ended": snapshot.has_ended,
        "curves": snapshot.curves,
        "pictures": {"step": snapshot.pictures_step, "files": files},
    }


def live_json(snapshot: Snapshot) -> str:
    """:func:`live_contents` as JSON."""
    return script_json(live_contents(snapshot))


def live_page(snapshot: Snapshot) -> str:
    """The page with the current state of the run, which requests ``snapshot.json`` next to it."""
    data = {"runs": [live_contents(snapshot)]}
    return render_offline("live.html", SCRIPTS, data, title=snapshot.name)


@functools.lru_cache(maxsize=8)
def _encode(path: Path, written_ns: int) -> str:
    """A picture as WebP in base64, encoded once as long as its file is the same."""
    return encode(read_rgb(path), *_SIDE_AND_QUALITY)
