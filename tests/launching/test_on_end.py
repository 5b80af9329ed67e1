from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from vrtspike.files import write_json
from vrtspike.launching.messages import Messages
from vrtspike.launching.on_end import run_on_end, told_on_end


@pytest.mark.parametrize(("status", "word"), [(0, "finished"), (75, "interrupted"), (1, "failed")])
def test_the_command_is_told_how_it_ended(tmp_path, capsys, status, word):
    record = {"status": "whatever", "step": 7, "metrics": {"psnr": 30.5}}
    write_json(tmp_path / "run.json", record)
    command = 'echo "$VRTSPIKE_PRESET $VRTSPIKE_STATUS $VRTSPIKE_STEP $VRTSPIKE_METRICS"'
    command += '; echo "$VRTSPIKE_RUN" >&2; echo "$VRTSPIKE_RESULT"'
    run_on_end(command, "demo", tmp_path, Path("results/train/demo"), status, Messages())
    assert capsys.readouterr().out.splitlines() == [
        "LOG.ON_END:", f'demo {word} 7 {{"psnr": 30.5}}', str(tmp_path),
        str(Path("results/train/demo").absolute()),
    ]  # fmt: skip


def test_a_command_that_fails_is_told_and_changes_nothing(tmp_path, capsys):
    log = tmp_path / "train.log"
    run_on_end("echo one; echo two; exit 3", "demo", tmp_path, tmp_path, 0, Messages(log))
    warning = "warning: LOG.ON_END ended with 3: two"
    assert capsys.readouterr().out == f"{warning}\n"
    assert log.read_text() == f"LOG.ON_END:\none\ntwo\n{warning}\n"
    run_on_end("exit 4", "demo", tmp_path, tmp_path, 0, Messages())
    assert capsys.readouterr().out == "warning: LOG.ON_END ended with 4: it said nothing\n"


def test_it_is_told_of_an_error_too(tmp_path, capsys):
    def end(command: str | None, fault: Exception | None) -> str:
        told = told_on_end(command, "demo", tmp_path, tmp_path, Messages())
        with contextlib.suppress(OSError), told as ending:
            if fault is not None:
                raise fault  # such as a disk that is full when the result is published
            ending.status = 0
        return capsys.readouterr().out

    assert end('echo "$VRTSPIKE_STATUS"', OSError("full")) == "LOG.ON_END:\nfailed\n"
    assert end('echo "$VRTSPIKE_STATUS"', None) == "LOG.ON_END:\nfinished\n"
    assert end(None, OSError("full")) == ""


def test_what_a_command_leaves_in_the_background_is_not_waited_for(tmp_path, capsys):
    begun = time.monotonic()
    run_on_end("sleep 20 & echo $!", "demo", tmp_path, tmp_path, 0, Messages())
    assert time.monotonic() - begun < 10
    os.kill(int(capsys.readouterr().out.splitlines()[1]), signal.SIGTERM)


def test_beside_a_log_only_what_is_told_is_shown(tmp_path, capsys):
    log = tmp_path / "logs" / "train.log"
    messages = Messages(log)
    log.parent.mkdir()
    log.write_text("of the start before\n")
    messages.begin()
    messages.note("full text")
    messages.tell("important")
    assert log.read_text() == "full text\nimportant\n"
    assert capsys.readouterr().out == "important\n"
    assert messages.environment == {"VRTSPIKE_LOG_FILE": str(log)}


def test_without_a_log_everything_is_shown_once(capsys):
    messages = Messages()
    messages.begin()
    messages.note("full text")
    messages.tell("important")
    assert capsys.readouterr().out == "full text\nimportant\n"
    assert messages.environment == {}
