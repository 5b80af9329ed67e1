"""Records as Snakemake sends them; the workflow's tests see what it really sends."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest

from vrtspike.workflow.views import COMMAND, PlanView, RunView, log_end


class Watched:
    """A view and what it shows."""

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
        known = {"wildcards": {"preset": "demo"}, "output": ["x"], "log": ["logs/x.log"], **fields}
        self.send("job_info", jobid=number, rule_name=rule, **known)

    def finish(self, number: int) -> None:
        self.send("job_finished", job_id=number)
        self.send("progress", done=1, total=3)

    def fail(self, number: int, rule: str, **fields: Any) -> None:
        self.send("job_error", "Error", 40, jobid=number, rule_name=rule, **{"log": [], **fields})

    @property
    def shown(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def watched() -> Watched:
    found = Watched()
    found.begin(ingest=2, train=1)
    return found


def test_jobs_become_a_line_per_stage(watched):
    watched.send(None, "Select jobs to execute...")
    for number in (1, 2):
        watched.job(number, "ingest")
        watched.send("shellcmd", "python ...")
    watched.job(3, "train_demo", output=[])  # a target is no stage
    watched.finish(3)
    watched.finish(1)
    begun = ["ingest demo begins; its log: logs/x.log"] * 2
    assert watched.shown == begun
    watched.finish(2)
    *before, line = watched.shown
    assert before == begun
    assert line.split()[:2] == ["ingest", "2/2"]
    assert line.endswith(" s")
    assert watched.passed == []


def test_a_failed_job_is_reported_with_the_end_of_its_log_and_once(watched, tmp_path):
    log = tmp_path / "a.log"
    watched.job(1, "ingest")
    log.write_text("error: no")
    command = (
        "RuleException:\nCalledProcessError in file: Command 'x' returned non-zero exit status"
    )
    watched.send("error", f"{command} 137.", 40, exception="RuleException")
    watched.fail(1, "ingest", log=[str(log)])
    watched.send(None, "Exiting because a job execution failed. Look below", 40)
    watched.send("error", "WorkflowError:\nAt least one job did not complete successfully.", 40)
    assert watched.shown[1:] == [
        "error: ingest demo failed (non-zero exit status 137: killed, as when memory is full); "
        f"the end of {log}:",
        "    error: no",
    ]
    assert watched.passed == []
    watched.fail(1, "ingest", log=[str(log)])  # as Snakemake 9.19 does
    assert len(watched.shown) == 3
    # The reason belongs to one job only.
    watched.job(2, "ingest", wildcards={"preset": "other"})
    watched.fail(2, "ingest")
    assert watched.shown[-1] == "error: ingest other failed; it has no log"
    watched.view.end()
    assert watched.shown[-1].startswith("stopped after 0:00: 2 jobs failed. Finished jobs are kept")


def test_a_run_of_whose_job_the_output_is_refused_is_not_done(watched):
    watched.job(1, "ingest")
    watched.send("error", "WorkflowError in rule ingest:\nOutput x has older modification time", 40)
    watched.send(None, "Exiting because a job execution failed. Look above", 40)
    watched.view.end()
    assert "older modification time" in watched.passed[0]
    assert watched.shown[-1].startswith("stopped after 0:00. Finished jobs are kept: fix the error")


def test_what_an_executor_says_of_a_job_s_end_and_logs_of_this_attempt_are_shown(tmp_path):
    watched = Watched()
    old, slurm = tmp_path / "train.log", tmp_path / "1.log"
    old.write_text("error: of another day\n")
    slurm.write_text("no such module\n")
    watched.job(1, "train", log=[str(old)])
    aux = {"why": "its program failed"}
    watched.fail(1, "train", log=[str(old), str(slurm)], aux=aux)
    assert watched.shown[1].endswith(f"its program failed); the end of {slurm}:")
    assert watched.shown[2:] == ["    no such module"]
    watched.send(None, "Trying to restart job 1.")
    watched.fail(1, "train", log=[str(old)], aux=aux)
    assert watched.shown[-1].endswith("failed (its program failed); it has written no log")
    watched.send(None, "Trying to restart job 1.")
    old.write_text("error: of today\n")
    watched.fail(1, "train", log=[str(old)], aux=aux)
    assert watched.shown[-1] == "    error: of today"


def test_a_job_that_is_tried_again_has_not_failed():
    watched = Watched()
    watched.job(3, "train")
    watched.fail(3, "train")
    watched.send(None, "Trying to restart job 3.")
    assert watched.shown[-1] == "train demo is retried"
    watched.job(3, "train", output=["results/index.html"])
    watched.finish(3)
    watched.view.end()
    assert watched.shown[-2:] == ["done in 0:00", "report: results/index.html"]


@pytest.mark.parametrize(
    ("event", "text", "level"),
    [
        (None, "something to read", logging.WARNING),
        ("error", "MissingOutputException: job finished, files are missing", logging.ERROR),
        ("error", "WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR),
        ("group_error", "Error in group", logging.ERROR),
        ("job_info", "as some other version says it", logging.INFO),
        (None, "Nothing to be done (all requested files are present).", logging.INFO),
    ],
)
def test_what_a_person_has_to_know_is_passed_on(watched, event, text, level):
    watched.send(event, text, level)
    assert watched.passed == [text]


@pytest.mark.parametrize("typed", [None, "make demo"])
def test_an_interruption_is_no_failure(watched, monkeypatch, typed):
    monkeypatch.setattr("sys.argv", ["/bin/snakemake", "-c", "2", "a b"])
    if typed:
        monkeypatch.setenv(COMMAND, typed)
    watched.job(1, "train")
    shown = watched.shown
    watched.send(None, "Terminating processes on user request, this might take some time.")
    watched.send("error", "CalledProcessError: Command 'x' returned non-zero exit status 75.", 40)
    watched.fail(1, "train")
    watched.send("error", "WorkflowError:\nAt least one job did not complete successfully.", 40)
    assert (watched.shown, watched.passed) == (shown, [])
    watched.view.end()
    assert watched.shown[-1] == f"continue: {typed or chr(39).join(['snakemake -c 2 ', 'a b', ''])}"


def test_at_the_end_summaries_and_the_best_page_are_shown(watched, tmp_path):
    summary = tmp_path / "summary.txt"
    summary.write_text("PSNR 30 dB\n")
    for number, output in enumerate([str(summary), "r/report.html", "r/index.html"]):
        watched.job(number, f"rule{number}", output=[output])
        watched.finish(number)
    watched.view.end()
    assert watched.shown[-3:] == ["PSNR 30 dB", "done in 0:00", "report: r/index.html"]


@pytest.mark.parametrize(
    ("most", "shown", "summary"),
    [
        (None, ["read"], ["a: asked for", "b: asked for", "c: asked for"]),
        (
            2,
            ["a", "b", "c", "target", "table", "read"],
            ["a: asked for", "and 2 more stages; vrtspike why lists them all"],
        ),
    ],
)
def test_a_plan_ends_with_its_stages(most, shown, summary):
    stream, passed = io.StringIO(), []
    view = PlanView(lambda record: passed.append(record.msg), stream, most)
    view.end()
    assert stream.getvalue() == ""  # there is no plan
    fields = {"wildcards": {}, "benchmark": None, "input": [], "reason": "Forced execution"}
    for rule, output in (("a", ["x"]), ("b", ["y"]), ("c", ["z"]), ("target", [])):
        record = {"event": "job_info", "rule_name": rule, "output": output, "msg": rule}
        view.show(logging.makeLogRecord({**record, **fields, "levelno": 20}))
    view.show(logging.makeLogRecord({"event": "run_info", "msg": "table", "levelno": 20}))
    view.show(logging.makeLogRecord({"msg": "read", "levelno": 30}))
    view.end()
    assert (passed, stream.getvalue().splitlines()) == (shown, summary)


PAGES = "\n".join(f"[rank0]: line {number}" for number in range(30))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("9 of 10\r10 of 10\n", ["10 of 10"]),
        (PAGES, [f"[rank0]: line {number}" for number in range(10, 30)]),
        ("error: old\nx\nerror: 2 faults\n- a\n- b\n", ["error: 2 faults", "- a", "- b"]),
        (f"{PAGES}\nerror (process 1): no\nfailed\n", ["error (process 1): no", "failed"]),
    ],
)
def test_the_end_of_a_log_is_what_its_program_has_to_say(tmp_path, text, shown):
    log = tmp_path / "a.log"
    log.write_text(text)
    (tmp_path / "empty.log").touch()
    first, *lines = log_end([str(tmp_path / "empty.log"), str(log)]).splitlines()
    assert first == f"the end of {log}:"
    assert lines == [f"    {line}" for line in shown]


def test_a_training_that_was_stopped_in_time_says_where_it_is(tmp_path):
    log = tmp_path / "train.log"
    message = "saved at step 7 of 40; the same command continues from there"
    log.write_text("\n".join(["step 7", message, *(f"timing {row}" for row in range(30))]) + "\n")
    assert log_end([str(log)]) == f"{message} ({log})"


def test_of_thousands_of_faults_the_first_are_shown_and_what_to_do(tmp_path):
    log = tmp_path / "a.log"
    faults = [f"- fault {number}" for number in range(5000)]
    log.write_text("\n".join(["error: 5000 faults", *faults, "Fix them."]))
    shown = [line.strip() for line in log_end([str(log)]).splitlines()[1:]]
    assert shown[:-2] == ["error: 5000 faults", *faults[: len(shown) - 3]]
    left = 5002 - (len(shown) - 1)
    assert shown[-2:] == [f"... and {left} lines more, in {log}", "Fix them."]
    assert len(shown) < 110
