"""Jobs of batch systems: stand-ins of their commands, which really run jobs and answer alike."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from vrtspike.errors import RunError, UserError
from vrtspike.queueing import batch_systems
from vrtspike.queueing.batch_systems import SYSTEMS, Job, cancel, state, submit

# One program for all commands: a job is a process of its own; its number is the process's.
BATCH = """
import os, signal, subprocess, sys, time
from pathlib import Path

folder, system = Path({folder!r}), {system!r}
command, *words = sys.argv
command = Path(command).name
with (folder / "calls").open("a") as stream:
    print(command, *words, sep="|", file=stream)

def alive(number):
    try:
        state = Path(f"/proc/{{number}}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"

if (folder / "hangs").exists():
    time.sleep(1000)
if (folder / "away").exists():
    sys.exit({away!r})
if command in ("bsub", "qsub", "sbatch"):
    if (folder / "refuse").exists():
        print({submitted!r}.format(1))
        sys.exit("no such queue")
    with (folder / "log").open("a") as log:
        job = subprocess.Popen([words[-1]], stdout=log, stderr=log, start_new_session=True)
    print({submitted!r}.format(job.pid))
elif command in ("bkill", "qdel", "scancel"):
    for number in words:
        os.killpg(int(number), signal.SIGKILL)
elif alive(words[-1]):
    print({running!r}.format(words[-1]))
else:
    text, status = {ended!r}
    print(text.format(words[-1]), file=sys.stderr if status else sys.stdout)
    sys.exit(status)
"""

ANSWERS = {
    "lsf": {
        "submitted": "Job <{}> is submitted to default queue <normal>.",
        "running": "RUN",
        "ended": ("Job <{}> is not found", 255),
        "away": "LSF is down. Please wait ...",
    },
    "pbs": {
        "submitted": "{}",
        "running": "Job Id: {}\n    Job_Name = a\n    job_state = R\n",
        "ended": ("qstat: {} Job has finished, use -x or -H to obtain information", 35),
        "away": "Connection refused\nqstat: cannot connect to server pbs (errno=111)",
    },
    "sge": {
        "submitted": "{}",
        "running": "=====\njob_number:                 {}\n",
        "ended": ("Following jobs do not exist: \n{}", 1),
        "away": "error: commlib error: got select error (Connection refused)",
    },
    "slurm": {
        "submitted": "{}",
        "running": "RUNNING",
        "ended": ("", 0),
        "away": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
    },
}
COMMANDS = ("bsub", "bjobs", "bkill", "qsub", "qstat", "qdel", "sbatch", "squeue", "scancel")
PATIENCE_S = 60.0


class Site:
    """A folder with a batch system on its path."""

    def __init__(self, folder: Path, system: str) -> None:
        self.folder, self.system = folder, system

    def run(self, script: str, **more) -> str:
        path = self.folder / "script.sh"
        path.write_text(script)
        name = submit(self.system, Job("vrtspike-train-1", path, self.folder / "logs", **more))
        # Snakemake removes its scripts when it ends.
        path.unlink()
        return name

    def ends_as(self, job: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while (found := state(job)) == "running":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return found

    def calls(self) -> list[list[str]]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [line.split("|") for line in lines]


@pytest.fixture(params=SYSTEMS)
def site(request, tmp_path, monkeypatch):
    system = request.param
    (tmp_path / "bin").mkdir()
    program = BATCH.format(folder=str(tmp_path), system=system, **ANSWERS[system])
    for name in COMMANDS:
        path = tmp_path / "bin" / name
        path.write_text(f"#!{sys.executable}\n{program}")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), *os.get_exec_path()]))
    monkeypatch.chdir(tmp_path)
    yield Site(tmp_path, system)
    # A test that fails leaves no job that waits for ever.
    (tmp_path / "go").touch()


def test_a_job_runs_and_its_end_is_told_by_its_own_status(site):
    good = site.run("until [ -e go ]; do sleep 0.05; done; echo done > result\n")
    assert good.startswith(f"{site.system}:")
    assert state(good) == "running"
    (site.folder / "go").touch()
    assert site.ends_as(good) == "success"
    assert (site.folder / "result").read_text() == "done\n"
    assert site.ends_as(site.run("exit 3\n")) == "failed"
    # Nothing is left of jobs that are over.
    assert list((site.folder / ".snakemake/batch").iterdir()) == []


def test_a_batch_system_that_takes_no_job_in_time_is_told_with_what_to_do(site, monkeypatch):
    monkeypatch.setattr(batch_systems, "SUBMIT_S", 0.5)
    (site.folder / "hangs").touch()
    with pytest.raises(RunError) as told:
        site.run("echo done\n")
    text = str(told.value)
    submit_with, shown_with, withdrawn_with = {
        "lsf": ("bsub", "bjobs", "bkill"),
        "slurm": ("sbatch", "squeue", "scancel"),
    }.get(site.system, ("qsub", "qstat", "qdel"))
    assert text.startswith(f"{submit_with}: no answer within 0.5 s. The job may have been taken")
    for words in (
        f"{shown_with} ",
        "shows it as vrtspike-train-1",
        f"{withdrawn_with} and its num",
    ):
        assert words in text
    # If it was taken it finds nothing to run.
    assert list((site.folder / ".snakemake/batch").iterdir()) == []


def test_a_batch_system_that_does_not_answer_loses_no_job(site, monkeypatch):
    monkeypatch.setattr(batch_systems, "LOST_S", 0.0)
    job = site.run("until [ -e go ]; do sleep 0.05; done\n")
    (site.folder / "away").touch()
    assert [state(job) for _ in range(3)] == ["running"] * 3
    monkeypatch.setattr(batch_systems, "ANSWER_S", 1.0)
    (site.folder / "hangs").touch()
    assert state(job) == "running"
    (site.folder / "go").touch()
    # Its own status needs no batch system.
    assert site.ends_as(job) == "success"


def test_a_killed_job_has_failed_once_it_is_gone_for_long(site, monkeypatch):
    job = site.run("sleep 1000\n")
    cancel([job])
    deadline = time.monotonic() + PATIENCE_S
    mark = next((site.folder / ".snakemake/batch").glob("*.sh")).with_suffix(".gone")
    while not mark.exists():
        assert state(job) == "running"
        assert time.monotonic() < deadline
    # A file system may show its status late; so it is not given up at once.
    assert state(job) == "running"
    monkeypatch.setattr(batch_systems, "LOST_S", 0.0)
    assert state(job) == "failed"


def test_a_job_that_is_there_again_was_not_gone(site):
    job = site.run("until [ -e go ]; do sleep 0.05; done\n")
    mark = next((site.folder / ".snakemake/batch").glob("*.sh")).with_suffix(".gone")
    mark.write_text("0")  # a batch system that restarted did not know it for a while
    assert state(job) == "running"
    assert not mark.exists()
    (site.folder / "go").touch()
    assert site.ends_as(job) == "success"


def test_a_refused_job_is_told_in_the_words_of_the_batch_system(site):
    (site.folder / "refuse").touch()
    with pytest.raises(RunError, match=r"refused the job \((bsub|qsub|sbatch) .*:\nno such queue"):
        site.run("true\n")
    assert [path for path in (site.folder / ".snakemake/batch").iterdir() if path.is_file()] == []


def test_a_batch_system_that_is_not_here_is_told_with_what_to_do(site, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RunError, match=r"(bsub|qsub|sbatch): no such program .* batch_system"):
        site.run("true\n")


def test_a_job_knows_when_it_ends(site):
    begun = time.time()
    job = site.run("echo $VRTSPIKE_JOB_ENDS > ends\n", minutes=90)
    assert site.ends_as(job) == "success"
    ends = int((site.folder / "ends").read_text())
    assert begun + 5400 - 1 <= ends <= time.time() + 5400


EXPECTED = {
    "lsf": "-n|6 -W|90 -gpu|num=2 -q|long -P|lab rusage[mem=8000MB] --flag",
    "pbs": "select=1:ncpus=6:mem=8000mb:ngpus=2 walltime=01:30:00 -q|long -A|lab --flag",
    "sge": "-pe|smp|6 mem_free=1333M h_rt=01:30:00 gpu=2 -q|long -P|lab --flag",
    "slurm": "--cpus-per-task|6 --mem|8000M --time|90 --gres=gpu:2 --partition|long --account|lab",
}


def test_what_a_job_asks_for_reaches_the_command(site):
    asked = {"cores": 6, "mem_mb": 8000, "minutes": 90, "gpus": 2}
    job = site.run("true\n", **asked, queue="long", account="lab", extra="--flag")
    line = "|".join(site.calls()[0])
    for words in EXPECTED[site.system].split():
        assert words in line, words
    assert site.ends_as(job) == "success"
    site.run("true\n")
    plain = "|".join(site.calls()[-1])
    assert not re.search(r"gpu|\blab\b|long|\|-q\||partition|account|--flag", plain)


def test_jobs_are_withdrawn_by_the_system_they_are_of(site):
    job = site.run("sleep 1000\n")
    number = job.split(":")[1]
    assert cancel([job]) == []
    assert site.calls()[-1] == [SYSTEMS[site.system].cancel[0], number]


def test_jobs_that_may_go_on_are_named_with_the_command_that_ends_them(site, monkeypatch):
    job = site.run("until [ -e go ]; do sleep 0.05; done\n")
    command = f"{SYSTEMS[site.system].cancel[0]} {job.split(':')[1]}"
    (site.folder / "away").touch()
    (refused,) = cancel([job])
    assert refused.startswith("jobs may go on (")
    assert refused.endswith(f"; to end them: {command}")
    (site.folder / "hangs").touch()
    monkeypatch.setattr(batch_systems, "_CANCEL_S", 1.0)
    (late,) = cancel([job])
    assert "no answer within 1 s" in late
    (site.folder / "hangs").unlink()
    (site.folder / "go").touch()
    assert site.ends_as(job) == "success"


def test_names_that_are_none(tmp_path):
    with pytest.raises(UserError, match=r"expected lsf, pbs, sge, slurm"):
        submit("condor", Job("a", tmp_path / "a", tmp_path / "log"))
    with pytest.raises(UserError, match="is no job that was handed in here"):
        state("1234")
