from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.published_runs import write_lines
from vrtspike.analysis.run_logs import read_run_logs
from vrtspike.analysis.run_memory import (
    RunMemory,
    find_run_folder,
    measure_run,
    memory_advice,
    memory_lines,
)
from vrtspike.commands.main import run_command
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import RunError
from vrtspike.monitoring.process_memory import ProcessMemory, SystemMemory
from vrtspike.sst.settings import SSTSettings

GB = 1024.0
CALM = SystemMemory(100 * GB, 60 * GB, 30 * GB, 10 * GB, 1 * GB)
PROCESSES = (
    ProcessMemory(11, "training", 0, 8 * GB, 7 * GB, 6 * GB),
    ProcessMemory(12, "helper", 1, 500.0, 100.0, 20.0),
    ProcessMemory(13, "worker", 2, 3 * GB, 2 * GB, 1 * GB),
    ProcessMemory(14, "worker", 2, 3 * GB, 1 * GB, 0.5 * GB),
)


@pytest.fixture
def state(tmp_path):
    """A training without any trouble."""
    record = {"status": "running", "step": 40, "total_steps": 90, "starts": [{"host": "elsewhere"}]}
    return RunMemory(tmp_path, Settings(), record, PROCESSES, CALM, 5 * GB)


def test_processes_sums_and_machine(state):
    lines = memory_lines(state)
    assert lines[0] == f"{state.folder}: training, step 40 of 90"
    head, *rows = (line.split() for line in lines[2].splitlines())
    assert head == ["process,", "MB", "pid", "RSS", "PSS", "USS"]
    assert rows[2] == ["worker", "13", "3072", "2048", "1024"]
    assert lines[3].startswith("together: 10.1 GiB; the sum of RSS, 14.5 GiB,")
    assert lines[4] == "2 loading workers take 3.0 GiB, 1536 MB each"
    assert lines[6].startswith("machine: 40.0 GiB of 100.0 GiB in use (40 %); page cache 30.0 GiB")
    assert lines[7] == "shared memory (/dev/shm): 1.0 GiB of 10.0 GiB"
    assert lines[8] == "stores of its data set: 5.0 GiB"
    assert lines[9].startswith("cache of decoded chunks: at most 4 GB for all workers together")
    assert len(lines) == 10
    on_gpu = replace(PROCESSES[0], gpu=2000.0)
    lines = memory_lines(replace(state, processes=(on_gpu, *PROCESSES[1:])))
    assert [line.split()[-1] for line in lines[2].splitlines()[:3]] == ["GPU", "2000", "-"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings.model_validate({"DATA": {"CACHE_SIZE_GB": 3.5}}), "at most 3.5 GB for all work"),
        (Settings.model_validate({"DATA": {"USE_RAM_CACHE": False}}), "none"),
        (SSTSettings(), "none"),
    ],
)
def test_a_cache_is_told_where_there_can_be_one(state, settings, said):
    (line,) = [
        line for line in memory_lines(replace(state, settings=settings)) if "cache of dec" in line
    ]
    text = line.removeprefix("cache of decoded chunks: ")
    assert text == said if said == "none" else text.startswith(said)


def advice(state, **changes):
    return list(memory_advice(replace(state, **changes)))


def test_nothing_is_said_where_all_is_well(state):
    assert advice(state) == []
    # Nearly: 90 % is the limit.
    assert advice(state, system=replace(CALM, available=10.1 * GB)) == []


@pytest.mark.parametrize(
    ("total", "free", "cache_gb", "said"),
    [
        (100, 9, 4, "memory is 91 % full: only 10.1 GiB of it are this run's, end other programs"),
        (11, 0.5, 0, "memory is 95 % full: lower DATALOADER.TOTAL_WORKERS (auto), TRAIN_PREFETCH_"),
        (11, 0.5, 6, "TRAIN_PREFETCH_FACTOR (4) or DATA.CACHE_SIZE_GB (6)"),
    ],
)
def test_a_full_machine_is_told_with_keys_to_lower(state, total, free, cache_gb, said):
    system = replace(CALM, total=total * GB, available=free * GB)
    settings = Settings.model_validate({"DATA": {"CACHE_SIZE_GB": cache_gb}})
    (told,) = advice(state, stores_mb=None, system=system, settings=settings)
    assert said in told
    assert ("CACHE" in told) == (cache_gb == 6)


def test_a_container_is_full_before_its_machine(state):
    limited = replace(CALM, limit=11 * GB, limit_used=10.5 * GB)
    assert len(advice(state, system=limited, stores_mb=None)) == 1
    lines = memory_lines(replace(state, system=limited))
    assert any(line.startswith("container: 10.5 GiB of 11.0 GiB in use (95 %)") for line in lines)


def test_shared_memory_and_stores(state):
    (told,) = advice(state, system=replace(CALM, shared_used=8.1 * GB))
    assert "/dev/shm is nearly full" in told
    assert "--shm-size" in told
    assert advice(state, system=replace(CALM, shared_used=7.9 * GB)) == []
    # What is available, of which the page cache is a part.
    (told,) = advice(state, stores_mb=61 * GB)
    assert told.startswith("the stores (61.0 GiB) do not fit into the page cache")
    assert advice(state, stores_mb=59 * GB) == []
    limited = replace(CALM, limit=50 * GB, limit_used=10 * GB)
    (told,) = advice(state, system=limited, stores_mb=41 * GB)
    assert told.startswith("the stores (41.0 GiB)")
    assert advice(state, system=limited, stores_mb=39 * GB) == []


def grown(state, sums):
    folder = state.folder
    lines = [
        {"kind": "memory", "step": 100 * n, "process_mb": mb, "children_mb": 0, "time": n}
        for n, mb in enumerate(sums)
    ]
    write_lines(folder / "memory.jsonl", lines)
    write_lines(folder / "metrics.jsonl", [{"kind": "train", "step": 57, "loss": 1.0}])
    return replace(state, logs=read_run_logs(folder))


def test_a_run_that_keeps_growing_is_named(state):
    filled = [1000, 2000, 3000, 4000, 5000, 5900, *6 * [6000]]
    assert advice(grown(state, filled)) == []  # the cache filled, then it stayed
    found = grown(state, [1000 * n for n in range(1, 13)])
    (told,) = advice(found)
    assert told == (
        "memory grows: 3000 MB more within 500 steps, of 12000 MB at most: workers that start "
        "again in every epoch; DATALOADER.PERSISTENT_WORKERS: false"
    )
    # Its log is newer than its record.
    assert memory_lines(found)[0].endswith("training, step 57 of 90")


def test_where_no_process_trains(state, publish):
    gone = replace(state, processes=())
    assert memory_lines(gone)[0].endswith(
        "no process trains here (running, started on elsewhere, step 40 of 90)"
    )
    finished = measure_run(publish("one"))
    lines = memory_lines(finished)
    assert lines[0].endswith("no process trains here (finished, step 5)")
    assert lines[1] == "its log: 1000 MB at most with its workers, the system at most 40 % full"
    assert not any(line.startswith("stores") for line in lines)


def test_the_folder_of_a_preset_is_enough_to_analyse_its_latest_run(tmp_path, publish, capsys):
    folder = publish("one")
    assert run_command(["analyze", str(folder.parent)]) is None
    latest = capsys.readouterr().out
    run_command(["analyze", str(folder)])
    assert capsys.readouterr().out == latest
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(RunError, match=r"no metrics\.jsonl, .* with its first step"):
        run_command(["analyze", str(folder.parent)])


def test_a_run_is_found_by_folder_preset_or_parent(tmp_path, publish):
    runs = tmp_path / "train"
    folder = publish("one")
    old, new = runs / "preset/a", runs / "preset/b"
    for place, date in ((old, 1_000), (new, 2_000)):
        place.mkdir(parents=True)
        (place / "run.json").write_text("{}")
        os.utime(place / "run.json", (date, date))
    assert find_run_folder(folder, runs) == folder
    assert find_run_folder(runs / "preset", tmp_path / "nowhere") == new
    assert find_run_folder(Path("preset"), runs) == new
    with pytest.raises(RunError, match=r"nosuch: no run there; .*runs of: one, preset"):
        find_run_folder(Path("nosuch"), runs)
