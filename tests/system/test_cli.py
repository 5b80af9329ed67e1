"""How programs end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from vrtspike.system.cli import run

def main():
    print("x" * 100_000)
    {more}

run(main)
"""


def program(more: str, *words: str, **options) -> subprocess.Popen[str]:
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


@pytest.mark.parametrize(("name", "fault"), [("", "Is a directory"), (256 * "a", "File name too")])
def test_places_that_take_no_file_are_reported(tmp_path, name, fault):
    ended = program(f"open({str(tmp_path / name)!r}, 'w')", stdout=subprocess.DEVNULL)
    errors = ended.communicate()[1]
    assert errors.startswith(f"error: {tmp_path / name}: {fault}")
    assert ended.returncode == 2


def test_the_home_folder_after_an_equals_sign_is_known(tmp_path):
    for given, message in (
        ("--frame=~/x y.png", f"--frame={tmp_path}/x y.png {{}}\n"),
        ("KEY=~/x", "KEY=~/x {}\n"),  # keys that are paths read theirs themselves
        ("--frame=~no-one/x", "error: --frame: found ~no-one/x, but no such home folder; "),
    ):
        ended = program(
            "print(*sys.argv[1:], {}, file=sys.stderr)",
            given,
            stdout=-1,
            env={"HOME": str(tmp_path)},
        )
        assert ended.communicate()[1].startswith(message)
        assert ended.returncode == (2 if "no-one" in given else 0)


def test_a_missing_package_is_named_with_the_way_to_install_it():
    advice = "error: a package is missing or damaged (No module named 'skimage.metrics'; "
    for name, text, status in (
        ("skimage.metrics", advice, 2),
        ("vrtspike.no_such_module", "Traceback", 1),
    ):
        body = f"sys.modules['skimage'] = None; import {name}"
        ended = program(body, stdout=subprocess.DEVNULL)
        assert ended.communicate()[1].startswith(text)
        assert ended.returncode == status


def test_no_character_that_an_encoding_lacks_ends_a_program():
    ended = program(
        r"print('\u573a\udce9'); return 3", env={"PYTHONIOENCODING": "ascii"}, stdout=-1
    )
    output, errors = ended.communicate()
    assert (output[-13:-1], errors, ended.returncode) == (r"\u573a\udce9", "", 3)


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


def test_names_that_no_result_could_hold_are_refused_before_the_work():
    text = PROGRAM.format(more="raise AssertionError")
    done = subprocess.run(
        [sys.executable, "-c", text, b"bl\xe9"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr == "error: bl\\xe9: a name that is not UTF-8; rename it\n"
