"""The version that a project was made with."""

from __future__ import annotations

import json
from pathlib import Path

import vrtspike
from vrtspike.io.files import read_mapping

MADE_WITH = Path("config/made_with.json")
"""The file of a project that ``vrtspike init`` writes; a clone has none."""


def version_record(version: str) -> str:
    """Return the text of the file."""
    return json.dumps({"schema": 1, "vrtspike": version}) + "\n"


def version_messages() -> list[str]:
    """Return a message if the working directory was made with another version; empty if not.

    Raises:
        UserError: if the file cannot be read.
    """
    if not MADE_WITH.is_file():
        return []
    made = read_mapping(MADE_WITH, "remove it").get("vrtspike")
    if made == vrtspike.__version__:
        return []
    return [
        f"this project was made with vrtspike {made}, and {vrtspike.__version__} is installed; "
        "nothing in it was changed: CHANGELOG.md says what is new, vrtspike init OTHER_FOLDER "
        f"shows today's files. This line ends when {MADE_WITH} names {vrtspike.__version__}"
    ]
