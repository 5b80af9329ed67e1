"""Endings of programs: messages and exit statuses."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from vrtspike.system.program import run_main

def main():
    print("x" * 100_000)
    {more}

run_main(main)
"""


def program(more: str, *words: str | bytes, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(more=more), *words],
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_closed_pipe_ends_a_program_silently():
    for more in ("pass", "print('the last words', end='')"):
        reading, writing = os.pipe()
        os.close(reading)
        ended = program(more, stdout=writing)
        os.close(writing)
        assert ended.communicate()[1] == ""
        assert ended.returncode == 141


ECHO = "print(*sys.argv[1:], file=sys.stderr)"
NOT_THERE = "error: the package nosuchpackage is missing; pip install "

LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))"
TOO_LITTLE = "error: memory is limited to 4096 MB (ulimit -v); raise it"


@pytest.mark.parametrize(
    ("body", "word", "status", "errors"),
    [
        ("open('.', 'w')", "", 2, "error: .: Is a directory"),
        (ECHO, "--frame=~/x y.png", 0, "--frame=/home/ada/x y.png\n"),
        (ECHO, "KEY=~/x", 0, "KEY=~/x\n"),  # keys that are paths read theirs themselves
        (ECHO, "--frame=~no-one/x", 2, "error: --frame: found ~no-one/x, but no such home folder"),
        (ECHO, b"bl\xe9", 2, r"error: bl\xe9: a name that is not UTF-8; rename it"),
        ("import nosuchpackage.inner", "", 2, NOT_THERE),
        ("import vrtspike.no_such_module", "", 1, "Traceback"),
        (f"{LIMITED}; raise ImportError('x.so: failed to map segment')", "", 2, TOO_LITTLE),
        (f"{LIMITED}; raise MemoryError", "", 2, TOO_LITTLE),
        # Characters that an encoding lacks end no program.
        (r"print('\u573a\udce9', file=sys.stderr); return 3", "", 3, r"\u573a\udce9"),
    ],
)
def test_a_program_ends_with_a_status_and_a_message(body, word, status, errors):
    environment = {"HOME": "/home/ada", "PYTHONIOENCODING": "ascii"}
    ended = program(body, word, stdout=subprocess.DEVNULL, env=environment)
    assert ended.communicate()[1].startswith(errors)
    assert ended.returncode == status


def test_closed_streams_are_the_null_device(tmp_path):
    body = (
        "f = open({!r}, 'w'); print('lost'); print('lost', file=sys.stderr); f.write('kept');"
        "f.close(); assert sys.stdin.read() == '';"
        "subprocess.run(['sh', '-c', 'echo lost; echo lost >&2'], check=True)"
    ).format(str(tmp_path / "file"))
    text = f"import subprocess, sys\n{PROGRAM.format(more=body)}"
    command = '"$0" -c "$1" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", command, sys.executable, text], check=False)
    assert done.returncode == 0
    assert (tmp_path / "file").read_text() == "kept"
