from __future__ import annotations

import os
import pty
import subprocess
import sys

PROGRAM = """
import vrtspike.progress_bar as module
module.PLAIN_INTERVAL = 0.0
with module.progress_bar("evaluate") as show:
    print("in the log", flush=True)
    for done in (1, 2):
        show(done, 2)
"""


def shell(command: str, **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PROGRAM": PROGRAM, "PYTHON": sys.executable}
    return subprocess.run(
        ["bash", "-c", command], env=environment, check=True, text=True, timeout=60, **options
    )


def test_progress_goes_where_the_shell_says_and_the_rest_to_the_log(tmp_path):
    log = tmp_path / "a.log"
    command = f'VRTSPIKE_SCREEN=3 "$PYTHON" -c "$PROGRAM" 3>&2 > {log} 2>&1'
    assert shell(command, stderr=subprocess.PIPE).stderr == ("evaluate: 1 of 2\nevaluate: 2 of 2\n")
    assert log.read_text() == "in the log\n"
    master, slave = pty.openpty()
    shell(command, stderr=slave)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "2/2" in shown
    assert log.read_text() == "in the log\n"


def test_a_screen_that_is_not_open_is_standard_error():
    command = 'VRTSPIKE_SCREEN=3 "$PYTHON" -c "$PROGRAM" 3>&-'
    done = shell(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.stderr == "evaluate: 1 of 2\nevaluate: 2 of 2\n"
