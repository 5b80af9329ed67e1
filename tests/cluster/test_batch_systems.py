"""Jobs of batch systems: stand-ins of their commands, which really run jobs and answer alike."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.concurrency import wait_until
from vrtspike.cluster import batch_systems
from vrtspike.cluster.batch_systems import (
    BATCH_SYSTEMS,
    BatchJob,
    cancel_jobs,
    job_state,
    submit_job,
)
from vrtspike.system.errors import RunError

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
    place = next(words.index(word) for word in ("-o", "--output") if word in words)
    with open(words[place + 1], "a") as log:
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


class Site:
    """A folder with a batch system on its path."""

    def __init__(self, folder: Path, system: str) -> None:
        self.folder, self.system = folder, system

    def run(self, script: str, **more) -> str:
        path = self.folder / "script.sh"
        path.write_text(script)
        name = submit_job(
            self.system, BatchJob("vrtspike-train-1", path, self.folder / "logs", **more)
        )
        # Snakemake removes its scripts when it ends.
        path.unlink()
        return name

    def ends_as(self, job: str) -> str:
        states: list[str] = []
        wait_until(lambda: states.append(job_state(job)) or states[-1] != "running")
        return states[-1]

    def calls(self) -> list[list[str]]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [line.split("|") for line in lines]


@pytest.fixture
def system() -> str:
    return "pbs"


each_system = pytest.mark.parametrize("system", BATCH_SYSTEMS)


@pytest.fixture
def site(system, tmp_path, monkeypatch):
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


@each_system
def test_the_state_of_a_job_follows_its_exit_status(site):
    good = site.run("until [ -e go ]; do sleep 0.05; done; echo done > result\n")
    assert good.startswith(f"{site.system}:")
    assert job_state(good) == "running"
    (site.folder / "go").touch()
    assert site.ends_as(good) == "success"
    assert (site.folder / "result").read_text() == "done\n"
    assert site.ends_as(site.run("exit 3\n")) == "failed"
    # Nothing is left of jobs that are over.
    assert list((site.folder / ".snakemake/batch").iterdir()) == []


def test_a_job_that_asks_for_it_is_submitted_again(site):
    """As a training does that has saved before the end of its wall time."""
    job = site.run(
        "if [ -e begun ]; then until [ -e go ]; do sleep 0.05; done; exit 0; fi\n"
        "touch begun $VRTSPIKE_JOB_AGAIN; exit 1\n"
    )
    number = site.folder / ".snakemake/batch" / job.split(":")[2] / "number"
    wait_until(lambda: job_state(job) == "running" and number.exists())
    assert cancel_jobs([job]) == ""
    assert site.calls()[-1][1] == number.read_text() != job.split(":")[1]


@pytest.mark.parametrize(("status", "attempts"), [(1, 2), (2, 1)])
def test_a_job_that_failed_permanently_is_not_submitted_again(site, monkeypatch, status, attempts):
    script = f"echo 'Command returned non-zero exit status {status}.'; exit 1\n"
    for run, begun in (("one", attempts), ("another", 2 * attempts)):
        monkeypatch.setenv("VRTSPIKE_SNAKEMAKE", run)
        for _ in range(2):
            if (job := site.run(script)) is not None:
                assert site.ends_as(job) == "failed"
        submitted = [call for call in site.calls() if call[0] == "qsub"]
        assert len(submitted) == begun


def test_a_submission_without_an_answer_gives_advice(site, monkeypatch):
    monkeypatch.setattr(batch_systems, "SUBMIT_S", 0.5)
    (site.folder / "hangs").touch()
    with pytest.raises(RunError) as error:
        site.run("echo done\n")
    for words in (
        "qsub: no answer within 0.5 s. The job may have been submitted nevertheless",
        'find vrtspike-train-1 with qstat -w -u "$USER"',
        "qdel and its num",
    ):
        assert words in str(error.value)
    # If it was taken it finds nothing to run.
    assert list((site.folder / ".snakemake/batch").iterdir()) == []


@each_system
def test_a_batch_system_that_does_not_answer_loses_no_job(site, monkeypatch):
    monkeypatch.setattr(batch_systems, "LOST_S", 0.0)
    job = site.run("until [ -e go ]; do sleep 0.05; done\n")
    (site.folder / "away").touch()
    assert [job_state(job) for _ in range(3)] == ["running"] * 3
    monkeypatch.setattr(batch_systems, "QUERY_S", 0.2)
    (site.folder / "hangs").touch()
    assert job_state(job) == "running"
    (site.folder / "hangs").unlink()
    refused = cancel_jobs([job])
    assert refused.startswith("jobs may go on (")
    assert f"; to end them: {BATCH_SYSTEMS[site.system]['cancel']} {job.split(':')[1]}" in refused
    (site.folder / "go").touch()
    # Its own status needs no batch system.
    assert site.ends_as(job) == "success"


@each_system
def test_a_job_that_has_been_missing_for_long_has_failed(site, monkeypatch):
    job = site.run("sleep 1000\n")
    cancel_jobs([job])
    mark = site.folder / ".snakemake/batch" / job.split(":")[2] / "gone"
    wait_until(lambda: job_state(job) == "running" and mark.exists())
    # A file system may show its status late; so it is not given up at once.
    assert job_state(job) == "running"
    monkeypatch.setattr(batch_systems, "LOST_S", 0.0)
    assert job_state(job) == "failed"


def test_a_job_that_is_submitted_again_is_missing_since_then_alone(site, monkeypatch):
    """Its first attempt was lost; both times are of this machine's clock, not of the files'."""
    job = site.run("[ -e begun ] || touch begun $VRTSPIKE_JOB_AGAIN; sleep 1000\n")
    folder = site.folder / ".snakemake/batch" / job.split(":")[2]
    wait_until((folder / "again").exists)
    cancel_jobs([job])
    wait_until(lambda: job_state(job) == "running" and (folder / "gone").exists())
    later = time.time() + 2 * batch_systems.LOST_S
    monkeypatch.setattr(batch_systems.time, "time", lambda: later)
    assert job_state(job) == "running"
    assert (folder / "number").exists()
    cancel_jobs([job])
    wait_until(lambda: job_state(job) == "failed" or (folder / "gone").exists())
    assert folder.exists()
    assert job_state(job) == "running"


def test_a_job_of_grid_engine_in_error_state_is_not_running():
    answer = "job_number: 7\nerror reason    1:  can't open the output file\n"
    kinds = [kind for kind in ("active", "ended") if re.search(BATCH_SYSTEMS["sge"][kind], answer)]
    assert kinds == ["ended"]


def test_a_refused_job_shows_the_message_of_the_batch_system(site, monkeypatch):
    (site.folder / "refuse").touch()
    with pytest.raises(RunError, match=r"refused the job \(qsub .*:\nno such queue"):
        site.run("true\n")
    assert site.run("true\n") is None  # the same Snakemake need not hear it again
    monkeypatch.setenv("VRTSPIKE_SNAKEMAKE", "another")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RunError, match=r"qsub: no such program .* batch_system"):
        site.run("true\n")
    left = [path for path in (site.folder / ".snakemake/batch").iterdir() if path.is_file()]
    assert {path.suffix for path in left} == {".failed"}


def test_a_submit_command_that_may_not_be_run_is_an_error_message(site, monkeypatch):
    monkeypatch.setenv("PATH", str(site.folder / "bin"))
    (site.folder / "bin/qsub").chmod(0o644)
    with pytest.raises(RunError, match=r"qsub: Permission denied; .* batch_system"):
        site.run("true\n")


EXPECTED = {
    "lsf": "-n|6 -W|90 -gpu|num=2 -q|long -P|lab rusage[mem=8000MB] --flag",
    "pbs": "select=1:ncpus=6:mem=8000mb:ngpus=2 walltime=01:30:00 -q|long -A|lab --flag",
    "sge": "-pe|smp|6 mem_free=1333M h_rt=01:30:00 gpu=2 -q|long -P|lab --flag",
    "slurm": "--cpus-per-task|6 --mem|8000M --time|90 --gres=gpu:2 --partition|long --account|lab",
}


@each_system
def test_resources_of_a_job_reach_the_command(site):
    request = {"cores": 6, "mem_mb": 8000, "minutes": 90, "gpus": 2}
    script = "echo $(($VRTSPIKE_JOB_ENDS - $(date +%s))) > left\n"
    job = site.run(script, **request, queue="long", account="lab", extra="--flag")
    line = "|".join(site.calls()[0])
    for words in EXPECTED[site.system].split():
        assert words in line, words
    assert site.ends_as(job) == "success"
    assert 5300 < int((site.folder / "left").read_text()) <= 5400
    site.run("true\n")
    plain = "|".join(site.calls()[-1])
    assert re.search(r"(-n|ncpus=|smp|cpus-per-task)\|?1\b", plain)
    assert not re.search(r"gpu|\blab\b|long|\|-q\||partition|account|--flag", plain)
