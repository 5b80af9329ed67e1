"""Records as Snakemake sends them; the workflow's tests see what it really sends."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest

from tests.faults.disks import full, missing, small_disk
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


@pytest.mark.parametrize("terminal", [False, True])
def test_a_long_job_is_told_by_its_log(watched, tmp_path, terminal):
    watched.stream.isatty = lambda: terminal
    logs = [tmp_path / "0.log", tmp_path / "1.log"]
    watched.handler.tick()
    for number, log in enumerate(logs):
        watched.job(number, "ingest", log=[str(log)])
    for log, done in zip(logs, (3, 4), strict=True):
        log.write_text(
            "".join(f"[{n}/20] train/{n}: sound\n  - [7/9] \n" for n in range(1, done + 1))
        )
    watched.now = 20.0
    watched.handler.tick()
    last = watched.stream.getvalue().splitlines()[-1]
    assert last.split()[0].endswith("ingest")
    assert last.endswith("20.0 s  7 of 40")
    if terminal:  # 2 jobs of 2, together 7 of 40
        assert last.count("━") == int(24 * 7 / 40)
    else:
        watched.now += 14.0
        watched.handler.tick()
        assert watched.stream.getvalue().splitlines()[-1] == last
    watched.finish(0, total=2)
    watched.finish(1, total=2)
    assert watched.stream.getvalue().splitlines()[-1].split()[1] == "2/2"


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


SLURM_LOG = """\
Select jobs to execute...

[Sun Nov 22 10:07:55 2026]
localrule train:
    input: dataset.json
    wildcards: preset=b
    resources: tmpdir=/tmp, mem_mb=500
slurmstepd: error: StepId=1.0 exceeded memory limit (637972480 > 524288000), being killed
srun: error: n0: task 0: Killed
[Sun Nov 22 10:07:58 2026]
Error in rule train:
    message: None
Shutting down, this might take some time.
"""


def test_why_a_cluster_ended_a_job_is_told_with_the_end_of_its_log(tmp_path):
    """Where the job itself wrote nothing, what the cluster wrote is shown, without Snakemake's."""
    watched = Watched()
    own, slurm = tmp_path / "train.log", tmp_path / "1.log"
    own.write_text("")
    slurm.write_text(SLURM_LOG)
    watched.job(1, "train")
    aux = {"why": "Slurm job 1: it needed more memory", "external_jobid": "1"}
    logs = [str(own), str(slurm)]
    watched.send("job_error", "Error", 40, jobid=1, rule_name="train", log=logs, aux=aux)
    assert watched.shown == [
        f"error: train demo failed (Slurm job 1: it needed more memory); the end of {slurm}:",
        "    slurmstepd: error: StepId=1.0 exceeded memory limit (637972480 > 524288000), being "
        "killed",
        "    srun: error: n0: task 0: Killed",
    ]


def test_a_log_that_an_earlier_job_has_left_is_not_shown(tmp_path):
    watched = Watched()
    old, slurm = tmp_path / "train.log", tmp_path / "1.log"
    old.write_text("error: of another day\n")
    slurm.write_text("no such module\n")
    watched.job(1, "train", log=[str(old)])
    failure = {"jobid": 1, "rule_name": "train", "aux": {"why": "its program failed"}}
    watched.send("job_error", "Error", 40, log=[str(old), str(slurm)], **failure)
    assert watched.shown[0].endswith(f"its program failed); the end of {slurm}:")
    assert watched.shown[1:] == ["    no such module"]
    watched.send("job_error", "Error", 40, log=[str(old)], **failure)
    assert watched.shown[2:] == [
        "error: train demo failed (its program failed); it has written no log"
    ]
    old.write_text("error: of today\n")
    watched.send("job_error", "Error", 40, log=[str(old)], **failure)
    assert watched.shown[-1] == "    error: of today"
    # The next attempt writes nothing.
    watched.job(1, "train", log=[str(old)])
    watched.send("job_error", "Error", 40, log=[str(old)], **failure)
    assert watched.shown[-1].endswith("it has written no log")


def test_a_training_that_was_stopped_in_time_says_where_it_is(tmp_path):
    watched = Watched()
    log = tmp_path / "train.log"
    said = "saved at step 7 of 40; the same command continues from there"
    log.write_text("\n".join(["step 7", said, *(f"timing {row}" for row in range(30))]) + "\n")
    watched.job(1, "train")
    watched.send("job_error", "Error", 40, jobid=1, rule_name="train", log=[str(log)])
    assert watched.shown == [f"error: train demo failed; {said} ({log})"]


def test_a_job_that_is_tried_again_has_not_failed(tmp_path):
    watched = Watched()
    watched.job(3, "train")
    for _ in range(2):
        watched.send("job_error", "Error", 40, jobid=3, rule_name="train", log=[])
        watched.send(None, "Trying to restart job 3.")
        assert watched.shown[-1] == "train demo is tried again"
        assert watched.handler.failed == []
    watched.send("job_error", "Error", 40, jobid=3, rule_name="train", log=[])
    assert watched.handler.failed == ["train demo"]


@pytest.mark.parametrize(
    ("event", "text", "level"),
    [
        (None, "something to heed", logging.WARNING),
        ("error", "MissingOutputException: job finished, files are missing", logging.ERROR),
        ("error", "WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR),
        ("group_error", "Error in group", logging.ERROR),
        ("something_new", "new", logging.INFO),
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


def test_a_message_of_ours_is_shown_whole_unless_it_has_hundreds_of_lines(tmp_path):
    log = tmp_path / "a.log"
    faults = [f"- fault {number}" for number in range(40)]
    log.write_text("\n".join(["error: old", "9 of 10\r10 of 10", "error: 40 faults", *faults]))
    shown = log_end([str(tmp_path / "absent.log"), str(log)]).splitlines()
    assert shown == [f"the end of {log}:", "    error: 40 faults", *(f"    {f}" for f in faults)]
    faults = [f"- fault {number}" for number in range(5000)]
    log.write_text("\n".join(["error: 5000 faults", *faults, "Mend them."]))
    shown = [line.strip() for line in log_end([str(log)]).splitlines()[1:]]
    assert shown[:-2] == ["error: 5000 faults", *faults[: len(shown) - 3]]
    left = 5002 - (len(shown) - 1)
    assert shown[-2:] == [f"... and {left} lines more, in {log}", "Mend them."]
    assert len(shown) < 110
    log.write_text("9 of 10\r10 of 10\n")
    assert log_end([str(log)]).splitlines()[1:] == ["    10 of 10"]
    log.write_text(" \n")
    assert log_end([str(log)]) == f"its log is empty: {log}"


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_log_that_had_no_room_is_told_as_such(tmp_path):
    log = tmp_path / "disk/a.log"
    with small_disk(log.parent, 1):
        log.touch()
        with full(log.parent):
            assert log_end([str(log)]) == f"{log}: the disk is full; free space, and run again"
        assert log_end([str(log)]) == f"its log is empty: {log}"
    assert log_end([str(tmp_path / "gone/a.log")]) == f"its log is empty: {tmp_path}/gone/a.log"


def test_an_error_of_one_of_several_processes_is_shown_without_what_the_others_say(tmp_path):
    log = tmp_path / "train.log"
    pages = [f"[rank0]: line {number}" for number in range(30)]
    log.write_text("\n".join(["epoch 1", "error (process 1): no", "training failed", ""]))
    expected = ["    error (process 1): no", "    training failed"]
    assert log_end([str(log)]).splitlines()[1:] == expected
    log.write_text("\n".join([*pages, "error (process 1): no", "training failed", ""]))
    assert log_end([str(log)]).splitlines()[1:] == expected


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


def test_a_job_that_failed_is_at_work_no_longer():
    watched = Watched(Terminal())
    watched.send("workflow_started", "begun")
    watched.job(1, "ingest")
    watched.handler.tick()
    assert "0/1" in watched.stream.getvalue()
    watched.send("job_error", "Error", 40, jobid=1, rule_name="ingest", log=[])
    said = len(watched.stream.getvalue())
    watched.handler.tick()
    assert "ingest" not in watched.stream.getvalue()[said:]


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_log_that_had_no_room_is_told(tmp_path):
    log = tmp_path / "disk/log"
    with small_disk(log.parent, 1):
        log.touch()
        assert log_end([str(log)]) == f"its log is empty: {log}"
        with full(log.parent):
            told = log_end([str(log)])
    assert told == f"{log}: the disk is full; free space, and run again"
