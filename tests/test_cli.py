"""How programs end."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from vrtspike.cli import run

def main():
    print("x" * 100_000)
    {more}

run(main)
"""


def program(more: str, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(more=more)],
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_who_has_read_enough_ends_a_program_without_a_word():
    for more in ("pass", "print('the last words', end='')"):
        reading, writing = os.pipe()
        os.close(reading)
        ended = program(more, stdout=writing)
        os.close(writing)
        assert ended.communicate()[1] == ""
        assert ended.returncode == 141


def test_a_folder_where_a_file_belongs_is_told(tmp_path):
    ended = program(f"open({str(tmp_path)!r}, 'w')", stdout=subprocess.DEVNULL)
    told = ended.communicate()[1]
    assert told.startswith(f"error: {tmp_path}: Is a directory; ")
    assert ended.returncode == 2
