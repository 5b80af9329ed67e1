"""Memory of a running training: sums over processes, full memory, ways to name a run."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from vrtspike.analysis import run_memory
from vrtspike.analysis.run_memory import memory_lines, memory_warnings_of_run
from vrtspike.commands.main import run_command
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import write_json
from vrtspike.monitoring.process_memory import ProcessMemory, SystemMemory
from vrtspike.runs.identity import RunIdentity
from vrtspike.sst.settings import SSTSettings
from vrtspike.system.errors import RunError

GB = 1024.0
CALM = SystemMemory(100 * GB, 40 * GB, 60 * GB, 30 * GB, 10 * GB, 1 * GB)
LIMITED = replace(CALM, total=50 * GB, used=10 * GB, has_limit=True)
PROCESSES = (
    ProcessMemory(11, "training", 0, 8 * GB, 7 * GB, 6 * GB),
    ProcessMemory(12, "helper", 1, 500.0, 100.0, 20.0),
    ProcessMemory(13, "worker", 2, 3 * GB, 2 * GB, 1 * GB),
    ProcessMemory(14, "worker", 2, 3 * GB, 1 * GB, 0.5 * GB),
)


def test_processes_sums_and_machine(publish, monkeypatch):
    folder = publish("one")
    write_json(folder / "run.json", {"status": "running", "step": 5, "total_steps": 90})

    def told(processes: tuple[ProcessMemory, ...], system: SystemMemory) -> list[str]:
        monkeypatch.setattr(run_memory, "processes_of_run", lambda folder: processes)
        monkeypatch.setattr(run_memory, "system_memory", lambda: system)
        return memory_lines(folder)

    lines = told(PROCESSES, CALM)
    assert lines[0] == f"{folder}: training, step 5 of 90"
    head, *rows = (line.split() for line in lines[2].splitlines())
    assert head == ["process,", "MB", "pid", "RSS", "PSS", "USS"]
    assert rows[2] == ["worker", "13", "3072", "2048", "1024"]
    assert lines[3].startswith("together: 10.1 GiB; the sum of RSS, 14.5 GiB,")
    assert lines[5:] == [
        "machine: 40.0 GiB of 100.0 GiB in use (40 %); page cache 30.0 GiB, which is freed when "
        "needed",
        "shared memory (/dev/shm): 1.0 GiB of 10.0 GiB",
        "cache of decoded chunks: at most 4 GB for all workers together (DATA.CACHE_SIZE_GB)",
    ]
    RunIdentity("one", SSTSettings(TASK="sst"), "dataset.json", "print").write(folder)
    lines = told((replace(PROCESSES[0], gpu=2000.0), *PROCESSES[1:]), LIMITED)
    assert [line.split()[-1] for line in lines[2].splitlines()[:3]] == ["GPU", "2000", "–"]
    assert lines[5].startswith("container: 10.0 GiB of 50.0 GiB in use (20 %)")
    assert lines[-1] == "cache of decoded chunks: none"


FULL = "DATALOADER.TOTAL_WORKERS: cpu*0.4; DATALOADER.TRAIN_PREFETCH_FACTOR: 2)"


@pytest.mark.parametrize(
    ("system", "cache_gb", "message"),
    [
        # Nearly: 90 % is the limit.
        ({"used": 89.9 * GB}, 4, None),
        ({"used": 91 * GB}, 0, f"before the system ends the run ({FULL}"),
        ({"used": 91 * GB}, 6, f"(DATA.CACHE_SIZE_GB: 3.0; {FULL}"),
        ({"total": 11 * GB, "used": 10.5 * GB}, 0, "95 % of the system's memory in use"),
        ({"shared_used": 7.9 * GB}, 4, None),
        ({"shared_used": 8.1 * GB}, 4, "/dev/shm is nearly full"),
    ],
)
def test_full_memory_is_reported_with_keys_to_lower(system, cache_gb, message):
    settings = DeblurringSettings.model_validate({"DATA": {"CACHE_SIZE_GB": cache_gb}})
    messages = list(memory_warnings_of_run(settings, PROCESSES, replace(CALM, **system)))
    assert len(messages) == (message is not None)
    assert all(message in text for text in messages)
    assert all(("CACHE" in text) == (cache_gb == 6) for text in messages)


def test_prefetched_batches_are_not_to_be_fewer_than_one():
    loader = {"TRAIN_PREFETCH_FACTOR": 1}
    settings = DeblurringSettings.model_validate({"DATALOADER": loader})
    (message,) = memory_warnings_of_run(settings, PROCESSES, replace(CALM, shared_used=8.1 * GB))
    assert message.endswith("a bus error: start the container with a larger --shm-size")


def test_a_run_without_processes(publish):
    gone = "no process trains here"
    folder = publish("one")
    with (folder / "metrics.jsonl").open("a") as log:
        log.write('{"kind": "train", "step": 7, "loss": 1.0}\n')
    # Its log is newer than its record.
    assert memory_lines(folder)[0].endswith(f"{gone} (finished, step 7)")
    record = {"status": "running", "step": 40, "total_steps": 90, "starts": [{"host": "elsewhere"}]}
    write_json(folder / "run.json", record)
    line = memory_lines(folder)[0]
    assert line.endswith(f"{gone} (running, started on elsewhere, step 7 of 90)")


def test_a_run_that_has_not_begun_has_no_record_yet(publish):
    folder = publish("one")
    (folder / "run.json").unlink()
    with pytest.raises(RunError, match=r"found no run\.json, which a training writes"):
        memory_lines(folder)


def test_the_folder_of_a_preset_is_enough_to_analyse_its_latest_run(publish, capsys):
    folder = publish("one")
    assert run_command(["analyze", str(folder.parent)]) is None
    latest = capsys.readouterr().out
    run_command(["analyze", str(folder)])
    assert capsys.readouterr().out == latest
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(RunError, match=r"no metrics\.jsonl, .* with its first step"):
        run_command(["analyze", str(folder.parent)])


def test_a_run_is_found_by_folder_preset_or_parent(tmp_path, publish, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = publish("one")
    old, new = Path("runs/preset/a"), Path("runs/preset/b")
    for place, date in ((old, 1_000), (new, 2_000)):
        shutil.copytree(folder, place)
        os.utime(place / "run.json", (date, date))
    for name, expected in ((folder, folder), ("runs/preset", new), ("preset", new)):
        run_command(["memory", str(name)])
        assert capsys.readouterr().out.startswith(f"{expected}: no process trains here")
    with pytest.raises(RunError, match="nosuch: no run there; expected its folder"):
        run_command(["memory", "nosuch"])
    config = Path("config/config.yaml")
    config.parent.mkdir()
    config.write_text("RUNS: elsewhere\nRESULTS: out\n")
    with pytest.raises(RunError, match="a preset with a run in elsewhere or out/train"):
        run_command(["memory", "preset"])
    shutil.copytree(folder, "out/train/preset")
    run_command(["memory", "preset"])
    assert capsys.readouterr().out.startswith("out/train/preset: no process trains here")
