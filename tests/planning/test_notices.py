from __future__ import annotations

import subprocess
import sys

from vrtspike.planning.notices import Notices

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


def test_what_was_said_as_an_error_is_not_said_again(capsys):
    notices = Notices()
    notices.add("preset p cannot be used:\nits file is wrong")
    notices.add("something else")
    notices.leave_out("its file is wrong")
    notices.say()
    assert capsys.readouterr().err == "something else\n"
