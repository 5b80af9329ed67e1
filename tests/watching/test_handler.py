"""Records as Snakemake sends them; the workflow's tests see what it really sends."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest

from vrtspike.watching.handler import StageHandler, log_end


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Watched:
    """A handler and what it shows."""

    def __init__(self, stream: io.StringIO | None = None, **options: Any) -> None:
        self.stream = io.StringIO() if stream is None else stream
        self.passed: list[str] = []
        self.now, self.totals, self.counted = 0.0, {"ingest": 2, "train": 1}, 0
        default = logging.Handler()
        default.emit = lambda record: self.passed.append(str(record.msg))
        self.handler = StageHandler(
            default, self.stream, self._count, clock=lambda: self.now, **options
        )

    def _count(self) -> dict[str, int]:
        self.counted += 1
        return self.totals

    def send(self, event: str | None, msg: str | None = None, level: int = 20, **fields) -> None:
        record = logging.makeLogRecord({"msg": msg, "levelno": level, **fields})
        if event is not None:
            record.event = event
        self.handler.handle(record)

    def job(self, number: int, rule: str, **fields: Any) -> None:
        known = {"wildcards": {"preset": "demo"}, "output": ["x"], "log": ["logs/x.log"], **fields}
        self.send("job_info", jobid=number, rule_name=rule, **known)

    def finish(self, number: int, total: int = 3) -> None:
        self.send("job_finished", job_id=number)
        self.send("progress", done=1, total=total)

    @property
    def shown(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def watched() -> Watched:
    found = Watched()
    found.send("workflow_started", "begun")
    return found


def test_jobs_become_a_line_per_stage(watched):
    watched.send(None, "Select jobs to execute...")
    for number in (1, 2):
        watched.job(number, "ingest")
        watched.send("shellcmd", "python ...")
    watched.now = 1.5
    watched.finish(1)
    assert watched.shown == []
    watched.finish(2)
    assert [line.split() for line in watched.shown] == [["ingest", "2/2", "1.5", "s"]]
    assert watched.passed == []
    assert watched.counted == 1


def test_a_grown_plan_is_counted_before_its_jobs_begin():
    watched = Watched(Terminal())
    watched.totals = {}
    watched.send("progress", done=1, total=1)
    watched.send(None, "Updating checkpoint dependencies.")
    watched.totals = {"ingest": 9}
    watched.send("job_started", "Execute 1 jobs...", jobs=[1])
    watched.job(1, "ingest")
    assert "0/9" in watched.stream.getvalue()


def test_targets_without_output_are_no_stages(watched):
    watched.job(1, "train_demo", output=[])
    watched.finish(1)
    assert watched.shown == []


def test_without_a_terminal_long_stages_are_told_now_and_then(watched):
    watched.totals = {"ingest": 20}
    for number in range(20):
        watched.job(number, "ingest")
    for number in range(10):
        watched.now += 5.0
        watched.finish(number)
    counts = [line.split()[1] for line in watched.shown]
    assert counts == ["3/20", "6/20", "9/20"]
    assert "\r" not in watched.stream.getvalue()
    assert "\x1b" not in watched.stream.getvalue()


def test_a_bar_is_drawn_on_a_terminal_and_makes_way_for_programs_that_draw():
    watched = Watched(Terminal(), loud=["train"], announced=["train"])
    watched.send("workflow_started")
    watched.job(1, "ingest")
    assert watched.stream.getvalue().startswith("\r\x1b[Kingest ")
    before = len(watched.stream.getvalue())
    watched.job(2, "train")
    new = watched.stream.getvalue()[before:]
    assert new == "\r\x1b[Ktrain demo begins; its log: logs/x.log\n"
    watched.finish(1)
    assert watched.stream.getvalue()[before:] == new


def test_what_is_said_takes_the_place_of_a_bar():
    watched = Watched(Terminal())
    watched.send("workflow_started")
    watched.job(1, "ingest")
    before = len(watched.stream.getvalue())
    watched.handler.say("something")
    assert watched.stream.getvalue()[before:] == "\r\x1b[Ksomething\n"


def test_a_failed_job_is_told_with_the_end_of_its_log(watched, tmp_path):
    log = tmp_path / "a.log"
    log.write_text("\n".join(f"line {number}" for number in range(30)) + "\n\n")
    watched.job(1, "ingest")
    command = (
        "RuleException:\nCalledProcessError in file: Command 'x' returned non-zero exit status"
    )
    watched.send("error", f"{command} 137.", 40, exception="RuleException")
    watched.send("job_error", "Error", 40, jobid=1, rule_name="ingest", log=[str(log)])
    watched.send(None, "Exiting because a job execution failed. Look below", 40)
    watched.send("error", "WorkflowError:\nAt least one job did not complete successfully.", 40)
    first, *rest = watched.shown
    assert first == (
        "error: ingest demo failed (non-zero exit status 137: killed, as when memory is full); "
        f"the end of {log}:"
    )
    assert rest == [f"    line {number}" for number in range(10, 30)]
    assert watched.handler.failed == ["ingest demo"]
    assert watched.passed == []
    # The reason belongs to one job only.
    watched.send("job_error", "Error", 40, jobid=1, rule_name="ingest", log=[])
    assert watched.shown[-1] == "error: ingest demo failed; it has no log"


@pytest.mark.parametrize(
    ("event", "text", "level"),
    [
        (None, "something to heed", logging.WARNING),
        ("error", "MissingOutputException: job finished, files are missing", logging.ERROR),
        ("error", "WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR),
        ("group_error", "Error in group", logging.ERROR),
        ("something_new", "new", logging.INFO),
        (None, "Trying to restart job 3.", logging.INFO),
        (None, "Nothing to be done (all requested files are present).", logging.INFO),
    ],
)
def test_what_a_person_has_to_know_is_passed_on(watched, event, text, level):
    watched.send(event, text, level)
    assert watched.passed == [text]


def test_before_a_run_begins_all_but_one_phrase_is_passed_on():
    watched = Watched()
    watched.send(None, "Assuming unrestricted shared filesystem usage.")
    watched.send(None, "Creating report...")
    assert watched.passed == ["Creating report..."]


def test_what_the_default_filters_is_not_passed_on(watched):
    watched.handler._default.addFilter(lambda record: "heed" not in record.msg)
    watched.send(None, "something to heed", logging.WARNING)
    assert watched.passed == []


def test_an_interruption_is_no_failure(watched):
    watched.job(1, "train")
    watched.send(None, "Terminating processes on user request, this might take some time.")
    command = "CalledProcessError: Command 'x' returned non-zero exit status 75."
    watched.send("error", command, 40, exception="RuleException")
    watched.send("job_error", "Error", 40, jobid=1, rule_name="train", log=["logs/x.log"])
    watched.send("error", "WorkflowError:\nAt least one job did not complete successfully.", 40)
    assert (watched.shown, watched.passed) == ([], [])
    assert watched.handler.interrupted
    assert watched.handler.failed == []


def test_quiet_shows_errors_only():
    watched = Watched(Terminal(), announced=["train"], quiet=True)
    watched.send("workflow_started")
    watched.job(1, "train")
    watched.finish(1)
    assert watched.shown == []
    watched.job(1, "train")
    watched.send("job_error", "Error", 40, jobid=1, rule_name="train", log=[])
    assert watched.shown == ["error: train demo failed; it has no log"]


def test_what_is_to_be_shown_when_nothing_is_to_be_done(watched):
    asked = []
    watched.handler.on_nothing_to_do = lambda: asked.append(watched.passed[-1])
    watched.send(None, "Nothing to be done (all requested files are present).")
    assert asked == ["Nothing to be done (all requested files are present)."]


def test_a_message_of_ours_is_shown_whole_however_long(tmp_path):
    log = tmp_path / "a.log"
    faults = [f"- fault {number}" for number in range(40)]
    log.write_text("\n".join(["error: old", "9 of 10\r10 of 10", "error: 40 faults", *faults]))
    shown = log_end([str(tmp_path / "absent.log"), str(log)]).splitlines()
    assert shown == [f"the end of {log}:", "    error: 40 faults", *(f"    {f}" for f in faults)]
    log.write_text("9 of 10\r10 of 10\n")
    assert log_end([str(log)]).splitlines()[1:] == ["    10 of 10"]
    log.write_text(" \n")
    assert log_end([str(log)]) == f"its log is empty: {log}"


def test_what_torchrun_adds_to_a_crash_is_left_out(tmp_path):
    log = tmp_path / "train.log"
    page = [f"  File torch/distributed/run.py, line {number}" for number in range(30)]
    starter = "E1122 1 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1)"
    log.write_text("\n".join(["ValueError: no", starter, *page, "training failed", ""]))
    assert log_end([str(log)]).splitlines()[1:] == ["    ValueError: no", "    training failed"]


def test_a_message_of_an_unknown_form_is_shown_and_what_follows_is_not_lost(watched):
    watched.send("job_info", "as some other version says it", jobid=1)
    assert watched.passed == ["as some other version says it"]
    watched.send("error", "what follows", level=logging.ERROR)
    assert watched.passed[-1] == "what follows"
