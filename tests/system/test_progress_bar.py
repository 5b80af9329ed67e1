"""The time that is left, with a clock that the tests set, and where progress is shown."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

from vrtspike.system.progress_bar import progress_bar


def set_times(monkeypatch: pytest.MonkeyPatch, times: Sequence[float]) -> None:
    """Set the times that the clock of progress bars shows, one after the other."""
    clock = SimpleNamespace(monotonic=iter(times).__next__)
    monkeypatch.setattr("vrtspike.system.progress_bar.time", clock)


def test_a_log_file_gets_a_line_now_and_then_with_the_time_left(monkeypatch, capsys):
    # A frame is done at each of these times, of 100; the first is that of the start.
    times = [0.0, 10.0, 20.0, 21.0, 40.0]
    set_times(monkeypatch, times)
    with progress_bar("evaluate") as progress:
        for done in range(1, len(times)):
            progress(done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "evaluate: 2 of 100, 16:20 left",  # 10 s a frame
        "evaluate: 4 of 100, 16:00 left",
    ]


def test_lines_become_rare_in_the_course_of_a_day(monkeypatch, capsys):
    times = [30.0 * number for number in range(2881)]
    set_times(monkeypatch, times)
    with progress_bar("train") as progress:
        for done in range(1, len(times)):
            progress(done, 2880)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "train: 1 of 2880, 23:59:30 left"
    assert 50 < len(lines) < 150


CELL = """
from vrtspike.system.progress_bar import progress_bar
with progress_bar("evaluate <a>") as show:
    print("before")
    for done in (1, 2):
        show(done, 2)
        print("after", done)
"""


@pytest.mark.slow
def test_a_notebook_has_one_bar_beside_everything_that_is_printed():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    NotebookClient(notebook, timeout=800, startup_timeout=800).execute()
    (cell,) = notebook.cells
    (bar,) = [output.data for output in cell.outputs if output.output_type == "display_data"]
    assert bar["text/plain"] == "evaluate <a>: 2 of 2"
    expected = '<progress value="2" max="2"></progress> evaluate &lt;a&gt;: 2 of 2'
    assert bar["text/html"] == expected
    printed = [output.text for output in cell.outputs if output.output_type == "stream"]
    assert "".join(printed) == "before\nafter 1\nafter 2\n"


PROGRAM = """
import vrtspike.system.progress_bar as module
module.PLAIN_INTERVAL = 0.0
module._PLAIN_SHARE = 0.0
with module.progress_bar("evaluate") as show:
    print("in the log", flush=True)
    for done in (1, 2):
        show(done, 2)
"""


LINES = "evaluate: 1 of 2, 0:00 left\nevaluate: 2 of 2\n"


def shell(command: str, **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PROGRAM": PROGRAM, "PYTHON": sys.executable}
    return subprocess.run(
        ["bash", "-c", command], env=environment, check=True, text=True, timeout=800, **options
    )


def test_progress_goes_to_the_screen_and_messages_to_the_log(tmp_path):
    log = tmp_path / "a.log"
    command = f'VRTSPIKE_SCREEN=3 "$PYTHON" -c "$PROGRAM" 3>&2 > {log} 2>&1'
    assert shell(command, stderr=subprocess.PIPE).stderr == (LINES)
    assert log.read_text() == "in the log\n"
    master, slave = pty.openpty()
    shell(command, stderr=slave)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "2/2" in shown
    assert log.read_text() == "in the log\n"
    # A screen that is not open is standard error.
    closed = shell('VRTSPIKE_SCREEN=3 "$PYTHON" -c "$PROGRAM" 3>&-', stderr=subprocess.PIPE)
    assert closed.stderr == LINES


PARENT = """
import os, subprocess, sys
from vrtspike.system.program import run_main
run_main(lambda: subprocess.call([sys.executable, "-c", os.environ["CHILD"]]))
"""
CHILD = """
import os
from vrtspike.system.program import run_main
def main():
    with open("results", "w") as results:
        assert results.fileno() == 3
        exec(os.environ["PROGRAM"])
run_main(main)
"""


@pytest.mark.parametrize("command", ['"$PYTHON" -c "$CHILD" 3>&-', '"$PYTHON" -c "$PARENT" 3>&2'])
def test_no_progress_is_written_into_a_file_with_the_number_of_the_screen(
    tmp_path, monkeypatch, command
):
    """The screen is closed, or a process that the program starts does not inherit it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARENT", PARENT)
    monkeypatch.setenv("CHILD", CHILD)
    shown = shell(f"VRTSPIKE_SCREEN=3 {command}", stderr=subprocess.PIPE)
    assert shown.stderr == LINES
    assert (tmp_path / "results").read_text() == ""
