"""Presets on the GPUs of one machine: real runs, whose devices are a file (tests/fake_driver)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.workflow.project import Project

pytestmark = pytest.mark.workflow

PATIENCE_S = 240.0

# Every Python of the run imports it first; a training process writes down what it was given, waits
# until the test lets it go, and trains on a CPU.
RECORDER = """
import json, os, sys, time
from pathlib import Path

arguments = getattr(sys, "orig_argv", [])
if any(word.endswith("scripts/train.py") for word in arguments) and "RANK" in os.environ:
    record = Path(os.environ["FAKE_RECORD"])
    names = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "VRTSPIKE_CPUS")
    others = [json.loads(path.read_text())["pid"] for path in record.glob("*.json")]
    found = {name: os.environ.get(name) for name in names}
    found["pid"] = os.getpid()
    found["preset"] = Path(arguments[arguments.index("--run-dir") + 1]).parent.name
    found["beside"] = [pid for pid in others if Path(f"/proc/{pid}").exists()]
    temporary = record / f"{os.getpid()}.tmp"
    temporary.write_text(json.dumps(found))
    temporary.rename(record / f"{found['preset']}.json")
    os.environ["OMP_NUM_THREADS"] = "1"
    deadline = time.monotonic() + 240
    while not (record / f"go {found['preset']}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
elif "FAKE_CPUS" in os.environ:
    os.sched_getaffinity = lambda pid: set(range(int(os.environ["FAKE_CPUS"])))
"""


@dataclass
class Machine:
    """A machine whose GPUs are given, and what trained on them."""

    folder: Path
    project: Project

    @property
    def record(self) -> Path:
        return self.folder / "record"

    def environment(self) -> dict[str, str]:
        driver = Path(__file__).parent.parent / "fake_driver"
        paths = [self.project.folder / "src", self.folder, driver]
        return {
            **{key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"},
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "FAKE_GPUS": str(self.folder / "gpus.json"),
            "FAKE_RECORD": str(self.record),
            "FAKE_CPUS": "40",
            "VRTSPIKE_GPU_LOCKS": str(self.folder / "locks"),
            "SLURM_CONF": os.devnull,
        }

    def install(self, *used: float) -> None:
        """GPUs of 40 GiB, so much of which others have taken."""
        gpus = [
            {"uuid": f"GPU-{letter}", "total": 40, "used": each}
            for letter, each in zip("abcd", used, strict=False)
        ]
        (self.folder / "gpus.json").write_text(json.dumps(gpus))

    def start(self, output: str, *arguments: str) -> subprocess.Popen[str]:
        with (self.folder / output).open("w") as stream:
            return subprocess.Popen(
                Project.command(*arguments),
                cwd=self.project.folder,
                env=self.environment(),
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def said(self, output: str) -> str:
        return (self.folder / output).read_text()

    def begun(self, preset: str, run: subprocess.Popen[str], output: str) -> dict:
        """What a training process was given."""
        path = self.record / f"{preset}.json"
        self.wait(path.exists, run, output)
        return json.loads(path.read_text())

    def wait(self, condition, run: subprocess.Popen[str], output: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert run.poll() is None, self.said(output)
            assert time.monotonic() < deadline, self.said(output)
            time.sleep(0.1)

    def let_go(self, preset: str) -> None:
        (self.record / f"go {preset}").touch()

    def end(self, run: subprocess.Popen[str], output: str) -> None:
        assert run.wait(PATIENCE_S) == 0, self.said(output)


@pytest.fixture
def machine(tiny, tmp_path):
    found = Machine(tmp_path / "machine", tiny)
    found.record.mkdir(parents=True)
    (found.folder / "sitecustomize.py").write_text(RECORDER)
    return found


def test_a_plan_shows_the_shares_of_two_presets_on_two_gpus(machine):
    machine.install(0, 0)
    plan = machine.start(
        *("plan", "-n", "-p", "--cores", "40", "train_tiny", "train_other", "evaluate_tiny"),
        *("--resources", "gpu=2", "--config", "GPUS=auto"),
    )
    machine.end(plan, "plan")
    said = machine.said("plan")
    found = re.findall(r"threads: (\d+)\n    resources:.* gpu=(\d)", said)
    assert found == [("20", "1")] * 3
    # Their programs are told.
    calls = re.findall(r"VRTSPIKE_CPUS=20 python (\S+) (.*)", said)
    assert (
        sorted(program for program, _ in calls)
        == ["scripts/evaluate.py"] + ["scripts/launch_training.py"] * 2
    )
    assert sum("--most-gpus 1" in options for _, options in calls) == 2
    # A process for each sequence of a share, with memory for each, and no threads beside.
    for rule in ("ingest", "voxelize"):
        (job,) = re.findall(rf"rule {rule}:\n(.*?)\n\n", said, re.DOTALL)
        assert "threads: 3\n" in job
        assert "mem_mb=2000" in job
        options = f"scripts/{rule}.py .* --share 0-of-1 --threads 3 --asked [0-9a-f]{{64}} "
        assert re.search(f"command: OMP_NUM_THREADS=1 python {options}", said), said


def test_a_limit_that_is_too_low_is_told_before_anything_runs(machine):
    machine.install(0, 0)
    run = machine.start(
        *("run", "--cores", "2", "train_tiny", "--resources", "gpu=1", "--config", "GPUS=2")
    )
    assert run.wait(PATIENCE_S) == 2
    assert "--resources gpu=1 leaves less than the 2 GPUs" in machine.said("run")
    assert not (machine.project.folder / "results").exists()


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_two_presets_train_at_once_and_share_no_gpu(machine):
    machine.install(0, 0)
    run = machine.start(
        "run", "--cores", "40", "train_tiny", "train_other", "--config", "GPUS=auto"
    )
    found = [machine.begun(preset, run, "run") for preset in ("tiny", "other")]
    # Both are there, and none has been let go: they train at once.
    assert sorted(each["CUDA_VISIBLE_DEVICES"] for each in found) == ["GPU-a", "GPU-b"]
    assert [each["VRTSPIKE_CPUS"] for each in found] == ["20", "20"]
    assert [each["OMP_NUM_THREADS"] for each in found] == ["20", "20"]
    for preset in ("tiny", "other"):
        machine.let_go(preset)
    machine.end(run, "run")


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_a_second_snakemake_waits_for_the_gpu_that_others_leave(machine):
    machine.install(30, 0)
    options = ("--cores", "2", "--config", "GPUS=1")
    first = machine.start("first", "train_tiny", *options)
    mine = machine.begun("tiny", first, "first")
    # Another user's process has memory on the first GPU.
    assert mine["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    second = machine.start("second", "train_other", *options)
    machine.wait(lambda: "waiting: " in machine.said("second"), second, "second")
    said = machine.said("second")
    assert "GPU 0: 30.0 of 40.0 GiB are in use" in said
    assert re.search(r"GPU 1 is held by process \d+ of \w+: .*launch_training.py", said)
    assert not (machine.record / "other.json").exists()
    machine.let_go("tiny")
    machine.let_go("other")
    machine.end(first, "first")
    machine.end(second, "second")
    after = json.loads((machine.record / "other.json").read_text())
    assert (after["CUDA_VISIBLE_DEVICES"], after["beside"]) == ("GPU-b", [])
