"""The view of a run, with simulated records of Snakemake."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest

from vrtspike.workflow.run_view import COMMAND_VARIABLE, RunView


class RecordedView:
    """A view with its output."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.passed: list[str] = []
        self.view = RunView(lambda record: self.passed.append(str(record.msg)), self.stream)

    def send(self, event: str | None, msg: str | None = None, level: int = 20, **fields) -> None:
        record = logging.makeLogRecord({"msg": msg, "levelno": level, **fields})
        if event is not None:
            record.event = event
        self.view.show(record)

    def begin(self, **totals: int) -> None:
        self.send("workflow_started", "begun")
        self.send("run_info", "table", stats={**totals, "total": sum(totals.values())})

    def job(self, number: int, rule: str, **fields: Any) -> None:
        values = {"wildcards": {"preset": "demo"}, "output": ["x"], "log": ["logs/x.log"], **fields}
        self.send("job_info", jobid=number, rule_name=rule, **values)

    def finish(self, number: int) -> None:
        self.send("job_finished", job_id=number)
        self.send("progress", done=1, total=3)

    def fail(self, number: int, rule: str, **fields: Any) -> None:
        self.send("job_error", "Error", 40, jobid=number, rule_name=rule, **{"log": [], **fields})

    @property
    def shown(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def view() -> RecordedView:
    view = RecordedView()
    view.begin(ingest=2, train=1)
    return view


def test_jobs_become_a_line_per_stage(view):
    view.send(None, "Select jobs to execute...")
    for number in (1, 2):
        view.job(number, "ingest")
        view.send("shellcmd", "python ...")
    view.job(3, "train_demo", output=[])  # a target rule is no stage
    view.finish(3)
    view.finish(1)
    begun = ["ingest demo begins; its log: logs/x.log"] * 2
    assert view.shown == begun
    view.finish(2)
    *before, line = view.shown
    assert before == begun
    assert line.split()[:2] == ["ingest", "2/2"]
    assert line.endswith(" s")
    assert view.passed == []


def test_a_failed_job_is_reported_with_the_end_of_its_log_and_once(view, tmp_path):
    log = tmp_path / "a.log"
    view.job(1, "ingest")
    log.write_text("error: no")
    command = (
        "RuleException:\nCalledProcessError in file: Command 'x' returned non-zero exit status"
    )
    view.send("error", f"{command} 137.", 40, exception="RuleException")
    view.fail(1, "ingest", log=[str(log)])
    view.send(None, "Exiting because a job execution failed. Look below", 40)
    view.send("error", "WorkflowError:\nAt least one job did not complete successfully.", 40)
    assert view.shown[1:] == [
        "error: ingest demo failed (non-zero exit status 137: killed, as when memory is full); "
        f"the end of {log}:",
        "    error: no",
    ]
    assert view.passed == []
    view.fail(1, "ingest", log=[str(log)])  # as Snakemake 9.19 does
    assert len(view.shown) == 3
    # The reason belongs to one job only.
    view.job(2, "ingest", wildcards={"preset": "other"})
    view.fail(2, "ingest")
    assert view.shown[-1] == "error: ingest other failed; it has no log"
    view.view.end()
    assert view.shown[-1].startswith("stopped after 0:00: 2 jobs failed. Finished jobs are kept")


def test_a_run_with_refused_output_is_not_done(view):
    view.job(1, "ingest")
    view.send("error", "WorkflowError in rule ingest:\nOutput x has older modification time", 40)
    view.send(None, "Exiting because a job execution failed. Look above", 40)
    view.view.end()
    assert "older modification time" in view.passed[0]
    assert view.shown[-1].startswith("stopped after 0:00. Finished jobs are kept: fix the error")


def test_the_reason_of_an_executor_and_the_logs_of_this_attempt_are_shown(tmp_path):
    view = RecordedView()
    old = tmp_path / "train.log"
    slurm = tmp_path / "1.log"
    old.write_text("error: of another day\n")
    slurm.write_text("no such module\n")
    view.job(1, "train", log=[str(old)])
    aux = {"why": "its program failed"}
    view.fail(1, "train", log=[str(old), str(slurm)], aux=aux)
    assert view.shown[1].endswith(f"its program failed); the end of {slurm}:")
    assert view.shown[2:] == ["    no such module"]
    view.send(None, "Trying to restart job 1.")
    view.fail(1, "train", log=[str(old)], aux=aux)
    assert view.shown[-1].endswith("failed (its program failed); it has written no log")
    view.send(None, "Trying to restart job 1.")
    old.write_text("error: of today\n")
    view.fail(1, "train", log=[str(old)], aux=aux)
    assert view.shown[-1] == "    error: of today"


def test_a_retried_job_has_not_failed(tmp_path):
    view = RecordedView()
    view.job(3, "train")
    view.fail(3, "train")
    view.send(None, "Trying to restart job 3.")
    assert view.shown[-1] == "train demo is retried"
    log = tmp_path / "of the first attempt"
    log.touch()
    view.job(3, "train", log=[str(log)])
    view.fail(3, "train", log=[str(log)])
    assert view.shown[-1] == "error: train demo failed again, as before"
    view.send(None, "Trying to restart job 3.")
    view.job(3, "train", output=["results/index.html"])
    view.finish(3)
    view.view.end()
    assert view.shown[-2:] == ["done in 0:00", "report: results/index.html"]


@pytest.mark.parametrize(
    ("event", "text", "level"),
    [
        (None, "something to read", logging.WARNING),
        ("error", "MissingOutputException: job finished, files are missing", logging.ERROR),
        ("error", "WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR),
        ("group_error", "Error in group", logging.ERROR),
        ("job_info", "in the form of another version", logging.INFO),
        (None, "Nothing to be done (all requested files are present).", logging.INFO),
    ],
)
def test_warnings_and_unknown_messages_are_shown(view, event, text, level):
    view.send(event, text, level)
    assert view.passed == [text]


@pytest.mark.parametrize("typed", [None, "make demo"])
def test_an_interruption_is_no_failure(view, monkeypatch, typed):
    monkeypatch.setattr("sys.argv", ["/bin/snakemake", "-c", "2", "a b"])
    if typed:
        monkeypatch.setenv(COMMAND_VARIABLE, typed)
    view.job(1, "train")
    shown = view.shown
    view.send(None, "Terminating processes on user request, this might take some time.")
    view.send("error", "CalledProcessError: Command 'x' returned non-zero exit status 75.", 40)
    view.fail(1, "train")
    view.send("error", "WorkflowError:\nAt least one job did not complete successfully.", 40)
    assert (view.shown, view.passed) == (shown, [])
    view.view.end()
    assert view.shown[-1] == f"continue: {typed or chr(39).join(['snakemake -c 2 ', 'a b', ''])}"


def test_at_the_end_summaries_and_the_best_page_are_shown(view, tmp_path):
    summary = tmp_path / "summary.txt"
    summary.write_text("PSNR 30 dB\n")
    for number, output in enumerate([str(summary), "r/report.html", "r/index.html"]):
        view.job(number, f"rule{number}", output=[output])
        view.finish(number)
    view.view.end()
    assert view.shown[-3:] == ["PSNR 30 dB", "done in 0:00", "report: r/index.html"]
