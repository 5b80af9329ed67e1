from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from vrtspike.planning.notices import Notices
notices = Notices()
for text in ("first", "second", "first"):
    notices.add(text)
print("plan", flush=True)
"""


def test_notices_are_said_once_and_last():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["plan", "first", "second"]
