"""The command ``watch``: terminal, page, end, and what it refuses."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.reporting.live_runs import append_step, fetch, make_live_run, note_status
from vrtspike.commands import watch
from vrtspike.commands.main import run_command
from vrtspike.reporting.live_server import serving
from vrtspike.reporting.live_state import LiveRun
from vrtspike.reporting.live_text import text_lines
from vrtspike.system.errors import UserError

Start = Callable[..., subprocess.Popen]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A run in the working directory's folder of runs, on a machine without a display."""
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    return make_live_run(Path("runs/demo/0123456789ab"))


@pytest.fixture
def start(folder) -> Iterator[Start]:
    """Starts ``vrtspike watch`` as a process, which ends with the test."""
    processes = []

    def start(*words: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "vrtspike", "watch", *words]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def address(process: subprocess.Popen) -> str:
    """The address that a process prints first."""
    line = process.stdout.readline()
    match = re.fullmatch(r"page: (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n", line)
    assert match is not None, (line, process.stderr.read() if process.poll() else "")
    return match[1]


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has a display")
@pytest.mark.parametrize("options", [(), ("--terminal",), ("--once",)])
def test_without_a_terminal_one_plain_snapshot_is_printed(folder, capsys, options):
    run_command(["watch", "demo", *options])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    lines = printed.splitlines()
    expected = text_lines(LiveRun(folder).read())
    # The time since the last record goes on.
    shown, expected = (
        [line for line in group if not line.startswith("last record")]
        for group in (lines, expected)
    )
    assert shown == expected
    assert len(lines) == len(shown) + 1
    assert lines[0] == "demo: running, step 10 of 100 (10%), run 0123456789ab"


def test_a_run_is_found_by_preset_folder_or_result(folder, capsys, publish):
    result = publish("one")
    shutil.copytree(result, "results/train/one")
    for name, shown in ((folder, "demo"), (folder.parent, "demo"), (result, "one"), ("one", "one")):
        run_command(["watch", str(name), "--once"])
        assert capsys.readouterr().out.startswith(f"{shown}: ")


def test_the_terminal_is_refreshed_until_the_end(folder, monkeypatch):
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        append_step(folder, 10 + len(waits))
        if len(waits) == 2:
            note_status(folder, "finished")

    states = []
    show = watch.terminal_text
    monkeypatch.setattr(watch.time, "sleep", wait)
    monkeypatch.setattr(
        watch, "terminal_text", lambda snapshot: states.append(snapshot) or show(snapshot)
    )
    watch.show_in_terminal(LiveRun(folder))
    assert [(state.step, state.status) for state in states] == [
        (10, "running"),
        (11, "running"),
        (12, "finished"),
    ]
    assert waits == [watch.REFRESH_S] * 2


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has a display")
@pytest.mark.parametrize(
    ("names", "has_display"),
    [
        ((), False),
        (("DISPLAY",), True),
        (("WAYLAND_DISPLAY",), True),
        (("DISPLAY", "SSH_CONNECTION"), False),
    ],
)
def test_a_display_is_that_of_this_machine(folder, monkeypatch, names, has_display):
    for name in names:
        monkeypatch.setenv(name, ":0")
    assert watch.has_display() is has_display


def test_a_browser_is_opened_where_it_can_be_seen(folder, monkeypatch, capsys):
    note_status(folder, "finished")
    opened = []

    def open_page(address: str) -> None:
        opened.append(address)
        fetch(f"{address}snapshot.json").close()

    monkeypatch.setattr("webbrowser.open", open_page)
    monkeypatch.setenv("DISPLAY", ":0")
    run_command(["watch", "demo"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"page: {opened[0]} (Ctrl-C ends it)"
    assert lines[1].startswith("demo: finished, step 10")


def test_ctrl_c_ends_the_page(folder, start):
    process = start("demo", "--no-browser")
    with fetch(address(process)) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (130, "interrupted\n")


def test_a_finished_run_is_shown_once(folder, start):
    note_status(folder, "finished")
    process = start(str(folder), "--no-browser")
    with fetch(address(process) + "snapshot.json") as answer:
        assert b"finished, step 10" in answer.read()
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert output == "demo: finished, step 10 of 100 (10%), run 0123456789ab\n"


def test_the_page_ends_with_the_training(folder, start):
    process = start("demo", "--no-browser")
    place = address(process) + "snapshot.json"
    with fetch(place) as answer:
        assert b"running" in answer.read()
    note_status(folder, "interrupted")
    with fetch(place) as answer:
        assert b"interrupted" in answer.read()
    output, _ = process.communicate()
    assert process.returncode == 0
    assert output.startswith("demo: interrupted, step 10")


def test_a_damaged_log_ends_the_page_with_its_message(folder, start):
    process = start("demo", "--no-browser")
    place = address(process)
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write("broken\n")
    with pytest.raises(OSError, match="500"):
        fetch(place + "snapshot.json")
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "metrics.jsonl, line" in errors
    assert "not a JSON record" in errors


def test_a_page_that_nobody_asks_for_is_given_up(folder, monkeypatch):
    note_status(folder, "finished")
    run = LiveRun(folder)
    monkeypatch.setattr(watch, "CHECK_S", 0.0)
    with serving(run) as server:
        watch.wait_for_end(run, server, 0.0)
        assert not server.end_is_shown.is_set()


def test_a_run_that_had_ended_before_waits_for_its_page_without_limit(folder):
    note_status(folder, "finished")
    answers = iter([False, False, True])
    event = SimpleNamespace(wait=lambda seconds: next(answers))
    server = SimpleNamespace(fault=None, end_is_shown=event)
    watch.wait_for_end(LiveRun(folder), server, None)
    assert list(answers) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nosuch"], r"nosuch: no run there; expected its folder .* or results/train"),
        (["demo", "--terminal", "--port", "80"], "--port and --no-browser are about the page"),
        (["demo", "--once", "--no-browser"], "--port and --no-browser are about the page"),
    ],
)
def test_wrong_words_are_refused(folder, words, message):
    with pytest.raises(UserError, match=message):
        run_command(["watch", *words])


def test_a_run_that_has_logged_nothing_is_refused(folder):
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(UserError, match=r"no metrics\.jsonl, which every training run writes"):
        run_command(["watch", "demo"])


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_out_of_range_is_refused(folder, capsys, port):
    with pytest.raises(SystemExit):
        run_command(["watch", "demo", f"--port={port}"])
    assert f"found {port}, expected 0 to 65535" in capsys.readouterr().err
