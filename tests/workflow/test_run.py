"""One complete run, and what does and does not run again after a change."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow.project import Project, stages
from vrtspike.errors import EXIT_USER_ERROR
from vrtspike.planning.pictures import workflow_pictures

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TRAIN = "GOPR0001_11_00"
DATASET = "results/data/tiny/k8/dataset.json"
SPIKES = f"data/tiny/train/{TRAIN}/spike/000002.dat"


def rules(jobs) -> Counter:
    return Counter(job.rule for job in jobs)


def nothing_to_do(project: Project, *arguments: str) -> bool:
    done = project.snakemake("--dry-run", "all", *arguments)
    assert done.returncode == 0, done.stdout
    return "Nothing to be done" in done.stdout


def test_publishes_every_result(finished):
    results = finished.folder / "results"
    for preset in ("tiny", "other"):
        for name in ("weights.safetensors", "settings.json", "statistics.json", "metrics.csv"):
            assert (results / "train" / preset / name).is_file()
        summary = json.loads((results / "evaluate" / preset / "summary.json").read_text())
        assert summary["preset"] == preset
        assert summary["frames"] == 3
        assert summary["metrics"]["tof"]["restored"] is not None
        assert set(summary["spikes_alone"]) == {"psnr", "ssim", "tof"}
        assert len(list((results / "evaluate" / preset / "pictures").glob("*.png"))) == 1
        examples = json.loads(
            (results / "evaluate" / preset / "examples/examples.json").read_text()
        )
        assert len(examples["examples"]) in (2, 3)
    assert (results / "compare/table.csv").is_file()
    # Where Snakemakes tell each other what they make; this one has ended.
    assert [path.name for path in (results / "logs/snakemakes").iterdir()] == ["lock"]


def test_the_report_is_one_file_that_needs_no_network(finished):
    report = (finished.folder / "results/report.html").read_text()
    loaded = re.findall(r"""(?:src|href)=["'](https?:[^"']+)""", report)
    assert [address for address in loaded if not address.endswith(("LICENSE", ".md"))] == []
    for found in ("Metrics", "Pictures", "Training", "Performance", "Comparison"):
        assert f'"{found}"' in report
    assert "what the model makes beside what goes in" in report
    # The search box of the report looks at paths.
    assert '"results/evaluate/tiny/metrics.html": {' in report
    assert "loss.svg" in report
    assert "data:image/png;" in report


def test_the_page_says_what_the_evaluations_say(finished):
    results = finished.folder / "results"
    page = (results / "index.html").read_text()
    (text,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', page)
    runs = json.loads(text)["runs"]
    assert [run["name"] for run in runs] == ["tiny", "other"]
    for run in runs:
        summary = json.loads((results / "evaluate" / run["name"] / "summary.json").read_text())
        metrics = {metric["name"]: metric for metric in run["evaluation"]["metrics"]}
        assert set(metrics) == set(summary["metrics"])
        for name, figures in summary["metrics"].items():
            assert metrics[name]["restored"] == figures["restored"]
        assert run["performance"]["sections"]
        assert run["curves"]["train"]["loss"]["steps"] == [1, 2]
    bases = [run["origin"]["base"] for run in runs]
    assert bases == ["the defaults of all keys", "preset tiny"]
    differences = {key: value for key, _, value in runs[1]["origin"]["differences"]}
    assert differences == {"DATA.ROOT": '"data/tiny"', "TRAIN.OPTIM.LR": "0.0001"}
    assert 'href=\\"index.html\\"' in (results / "report.html").read_text()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_shows_the_report(finished, tmp_path):
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
    command += ["--disable-sync", f"--user-data-dir={tmp_path}", "--virtual-time-budget=5000"]
    page = (finished.folder / "results/report.html").as_uri()
    done = subprocess.run(
        [*command, "--dump-dom", page], capture_output=True, text=True, check=True, timeout=120
    )
    # What stands in the navigation is put there by the page's own scripts.
    navigation = done.stdout[done.stdout.index("<body") :]
    for category in ("Metrics", "Pictures", "Training", "Performance"):
        assert re.search(rf">{category}<", navigation), category


def test_a_run_is_told_in_a_line_per_stage(finished):
    output = (finished.folder / "terminal.txt").read_text()
    found = stages(output)
    assert [found.get(name) for name in ("survey", "ingest", "voxelize", "train", "evaluate")] == [
        *((1, 1), (1, 1), (1, 1), (2, 2), (2, 2))
    ]
    assert list(found)[:3] == ["survey", "ingest", "alignment"]
    # Nothing of Snakemake's own, and of training what one waits for.
    assert "localrule" not in output
    assert "Timing summary" not in output
    assert len(re.findall(r"^\[train\] validation after step 2", output, re.MULTILINE)) == 2
    assert re.fullmatch(r"report: results/(?:index|report)\.html", output.splitlines()[-1])
    assert re.search(r"^done in \d+:\d\d$", output, re.MULTILINE)


def test_every_log_holds_the_text_of_its_job(finished):
    logs = finished.folder / "results/logs"
    empty = [path for path in logs.rglob("*.log") if not path.read_text().strip()]
    assert empty == []
    text = (logs / "train/tiny.log").read_text()
    for expected in ("run folder: runs/tiny/", "data loading", "step 2/2", "Timing summary"):
        assert expected in text
    assert "psnr: blurry" in (logs / "evaluate/tiny.log").read_text()


def test_a_second_run_has_nothing_to_do(finished):
    assert "Nothing to be done" in finished.make("all")


def test_the_pictures_of_the_workflow_are_those_of_its_rules(finished, repository):
    graph = finished.snakemake("--rulegraph", "dot", "--", "report").stdout
    for name, picture in workflow_pictures(graph).items():
        committed = (repository / "docs/images" / name).read_text(encoding="utf-8")
        assert committed == picture, f"{name}: scripts/workflow_picture.py draws it anew"


def test_a_touched_raw_file_changes_nothing(finished):
    path = finished.folder / SPIKES
    os.utime(path)
    assert nothing_to_do(finished)


def test_a_changed_raw_file_concerns_its_sequence_and_what_depends_on_it(finished):
    """All sequences of a share have one job, which leaves the others alone."""
    path = finished.folder / SPIKES
    contents = path.read_bytes()
    before = sequence_results(finished)
    path.write_bytes(contents[:100] + bytes([contents[100] ^ 1]) + contents[101:])
    try:
        jobs = finished.plan("train_tiny")
        told = why(finished, "train_tiny")[1]
        finished.make(DATASET)
        changed = sequence_results(finished)
    finally:
        path.write_bytes(contents)
        finished.make(DATASET)
    once = ("ingest", "alignment", "accept", "voxelize", "statistics", "train")
    assert rules(jobs) == dict.fromkeys(once, 1)
    reason = f"raw files of train/{TRAIN} changed"
    assert jobs[0].reason == reason
    assert told.startswith(f"ingest tiny: {reason}; took ")
    assert {name for name in before if changed[name] != before[name]} == {
        *(f"ingest/train/{TRAIN}.json", f"k8/train/{TRAIN}.json", f"k8/train/{TRAIN}.zarr")
    }
    assert nothing_to_do(finished)


def sequence_results(project: Project) -> dict[str, int]:
    """Manifest and store of every sequence; the number changes when it is written again."""
    folder = project.folder / "results/data/tiny"
    found = [path for place in ("ingest", "k8") for path in folder.glob(f"{place}/t*/*")]
    return {str(path.relative_to(folder)): path.stat().st_ino for path in found}


def test_a_new_sequence_is_noticed(finished):
    split = finished.folder / "data/tiny/train"
    shutil.copytree(split / TRAIN, split / "GOPR0009_11_00")
    try:
        jobs = finished.plan("train_tiny")
    finally:
        shutil.rmtree(split / "GOPR0009_11_00")
    assert rules(jobs)["survey"] == 1
    (ingest,) = [job for job in jobs if job.rule == "ingest"]
    assert ingest.reason == "new: train/GOPR0009_11_00"
    assert nothing_to_do(finished)


def test_a_changed_learning_rate_concerns_its_preset_and_is_named(finished):
    with finished.replaced("config/presets/other.yaml", "1.0e-4", "3.0e-4"):
        jobs = finished.plan("train_tiny", "train_other")
    assert [(job.rule, job.wildcards) for job in jobs] == [("train", {"preset": "other"})]
    assert "TRAIN.OPTIM.LR: 0.0001" in jobs[0].reason
    assert "TRAIN.OPTIM.LR: 0.0003" in jobs[0].reason


def test_settings_that_change_no_result_change_nothing(finished):
    finished.write(
        "more.yaml",
        "RUNS: elsewhere\n"
        "SETTINGS: {DATALOADER: {TOTAL_WORKERS: 1}, LOG: {MEMORY_EVERY_STEPS: 7}}\n",
    )
    assert nothing_to_do(finished, "--configfile", "more.yaml")
    assert nothing_to_do(finished, "--config", "SETTINGS={TEST: {NUM_WORKERS: 1}}", "GPUS=3")


def test_nodes_and_gpus_of_the_configuration_reach_the_scheduler(finished):
    done = finished.snakemake("--dry-run", "train_long", "--config", "NODES=2", "GPUS=4")
    (line,) = re.findall(r"resources: (.*nodes=.*)", done.stdout)
    assert {"nodes=2", "tasks=2", "mpi=srun", "gres=gpu:4"} <= set(line.split(", "))


def why(project: Project, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "vrtspike", "why", *arguments],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_why_tells_each_stale_stage_in_a_line(finished):
    assert why(finished, "all")[:2] == (0, "nothing to be done\n")
    with (
        finished.replaced("config/presets/other.yaml", "1.0e-4", "3.0e-4"),
        finished.replaced("src/vrtspike/training/loop.py", "ROW = 20", "ROW = 21"),
    ):
        status, told, notices = why(finished, "evaluate_other", "evaluate_tiny")
    assert status == 0
    train, evaluate = told.splitlines()
    assert re.fullmatch(
        r"train other: TRAIN\.OPTIM\.LR 0\.0001 -> 0\.0003; took \d+:\d\d last time", train
    )
    assert re.fullmatch(
        r"evaluate other: what it reads is made again; took \d+:\d\d last time", evaluate
    )
    # What would be trained anyway needs no word on its code.
    assert "tiny was trained by other code: MAX_SKIPPED_IN_A_ROW" in notices
    status, *said = why(finished, "nosuch")
    assert status == EXIT_USER_ERROR
    assert "nosuch" in "".join(said)


def test_changed_training_code_is_told_and_trains_nothing(finished):
    source = "src/vrtspike/training/loop.py"
    with finished.replaced(source, "MAX_SKIPPED_IN_A_ROW = 20", "MAX_SKIPPED_IN_A_ROW = 21"):
        told = finished.snakemake("--dry-run", "evaluate_tiny").stdout
        forced = finished.plan("evaluate_tiny", "--forcerun", "train_tiny")
    assert "Nothing to be done" in told
    assert told.splitlines()[-1] == (
        "tiny was trained by other code: MAX_SKIPPED_IN_A_ROW in training/loop.py. Its weights "
        "stay; to train it again: snakemake --forcerun train_tiny"
    )
    assert rules(forced) == {"train": 1, "evaluate": 1}
    assert forced[0].reason == "Forced execution"


def test_settings_of_the_evaluation_train_nothing(finished):
    overlay = ["--config", "SETTINGS={TEST: {TILE: {SIZE: 64}}}"]
    jobs = finished.plan("train_tiny", "evaluate_tiny", *overlay)
    assert rules(jobs) == {"evaluate": 1}
    assert "TEST.TILE.SIZE: 64" in jobs[0].reason


def test_comments_and_docstrings_change_nothing(finished):
    voxels = "src/vrtspike/deblurring/data/store/voxels.py"
    with (
        finished.replaced(voxels, "def voxelize(", "# Why\ndef voxelize("),
        finished.replaced("src/vrtspike/training/loop.py", '"""', '"""New words. '),
        finished.replaced("rules/voxelize.smk", "    input:", "\n    input:   "),
    ):
        assert nothing_to_do(finished)


def test_new_voxel_code_with_equal_voxels_trains_nothing(finished):
    before = sequence_results(finished)
    with finished.replaced(
        "src/vrtspike/deblurring/data/store/voxels.py",
        "np.add.reduce(steps, axis=0, out=counts[k])",
        "counts[k] = np.add.reduce(steps, axis=0)",
    ):
        jobs = [job for job in finished.plan("train_tiny") if job.rule == "voxelize"]
        told = why(finished, "train_tiny")[1]
        output = finished.make("train_tiny")
    assert len(jobs) == 1
    assert "vrtspike/deblurring/data/store/voxels.py" in jobs[0].reason
    assert "\ntrain tiny: decided when the data are made again; took " in told
    assert stages(output) == {"voxelize": (1, 1), "statistics": (1, 1)}
    after = sequence_results(finished)
    assert all((after[name] != before[name]) == name.startswith("k8/") for name in before)


def test_a_gate_that_says_the_same_trains_and_evaluates_nothing(finished):
    """The shortest clip of all presets of a data set is what the gate asks for."""
    finished.make("evaluate_tiny")  # what other tests have left to do
    shorter = "DATA: {CLIP_LEN: 1}\nTRAIN:"
    with finished.replaced("config/presets/other.yaml", "TRAIN:", shorter):
        output = finished.make("evaluate_tiny")
    assert stages(output) == {"accept": (1, 1), "statistics": (1, 1)}


def test_training_again_is_the_users_choice(finished):
    (before,) = (finished.folder / "runs/tiny").iterdir()
    weights = (finished.folder / "results/train/tiny/weights.safetensors").read_bytes()
    source = "src/vrtspike/training/loop.py"
    with finished.replaced(source, "MAX_SKIPPED_IN_A_ROW = 20", "MAX_SKIPPED_IN_A_ROW = 21"):
        output = finished.make("train_tiny", "--config", "RETRAIN=tiny")
        second = finished.make("train_tiny")
    assert "the run of other code stands in" in output
    assert "Nothing to be done" in second
    assert "trained by other code" not in second
    runs = {path.name for path in (finished.folder / "runs/tiny").iterdir()}
    assert runs == {before.name, f"{before.name}.1"}
    # The same settings, data and arithmetic give the same weights.
    published = finished.folder / "results/train/tiny/weights.safetensors"
    assert published.read_bytes() == weights


CODE_BEHIND = {
    "survey.json": (
        ("src/vrtspike/deblurring/data/gate/ingest.py", "most_common(1)", "most_common(2)"),
        "ingest",
    ),
    "k8/accepted.json": (
        (
            "src/vrtspike/deblurring/data/store/voxels.py",
            "np.add.reduce(steps, axis=0, out=counts[k])",
            "counts[k] = np.add.reduce(steps, axis=0)",
        ),
        "voxelize",
    ),
}
"""Code, by what stands before its stage: how it changes, and the stage."""


@pytest.mark.endurance
def test_damaged_manifests_are_made_again(finished):
    folder = finished.folder / "results/data/tiny"
    names = {
        "survey.json": "survey",
        "ingest/shares/0-of-1.json": "ingest",
        "k8/accepted.json": "accept",
        "k8/shares/0-of-1.json": "voxelize",
        "k8/dataset.json": "statistics",
    }
    all_names = [*names, f"ingest/train/{TRAIN}.json", f"k8/train/{TRAIN}.json"]
    whole = {name: (folder / name).read_bytes() for name in all_names}
    try:
        for name, rule in names.items():
            (folder / name).write_bytes(whole[name][: len(whole[name]) // 2])
            code, stage = CODE_BEHIND.get(name, (None, rule))
            # Changed code is noticed, too, where of what is damaged only the order counts.
            with finished.replaced(*code) if code else contextlib.nullcontext():
                jobs = finished.plan("train_tiny")
            (folder / name).write_bytes(whole[name])
            assert stage in rules(jobs)
            (job,) = [job for job in jobs if job.rule == rule]
            assert job.reason == f"results/data/tiny/{name} is damaged"
    finally:
        for name, contents in whole.items():
            (folder / name).write_bytes(contents[: len(contents) // 2])
        finished.make("train_tiny")
    for name, contents in whole.items():
        made, known = (json.loads(text) for text in ((folder / name).read_bytes(), contents))
        assert made.get("digest") == known.get("digest"), name
        assert made.keys() == known.keys(), name


LOST = {
    "data/tiny/survey.json": ("survey", "all"),
    "data/tiny/ingest/shares/0-of-1.json": ("ingest", "train_tiny"),
    "data/tiny/alignment.csv": ("alignment", "report"),
    "data/tiny/k8/accepted.json": ("accept", "evaluate_tiny"),
    "data/tiny/k8/dataset.json": ("statistics", "all"),
    "evaluate/tiny/summary.json": ("evaluate", "page"),
    "performance/tiny/findings.json": ("analyze_performance", "report"),
    "compare/table.csv": ("compare", "report"),
    "index.html": ("page", "report"),
}
"""Results that what stands after them hides from Snakemake: the rule, and what is asked for."""


@pytest.mark.parametrize("name", LOST)
def test_what_a_failed_job_has_removed_is_made_by_the_same_command(finished, name):
    rule, target = LOST[name]
    path = finished.folder / "results" / name
    aside = path.rename(finished.folder / "aside")
    try:
        (job,) = [job for job in finished.plan(target) if job.rule == rule]
    finally:
        aside.rename(path)
    assert job.reason == "no result yet"


def test_data_that_were_removed_are_not_made_again_for_results_of_the_same(finished):
    folder = finished.folder / "results/data"
    aside = folder.rename(finished.folder / "aside")
    try:
        assert nothing_to_do(finished)
    finally:
        aside.rename(folder)


def test_a_damaged_store_is_made_again_alone(finished):
    store = finished.folder / f"results/data/tiny/k8/train/{TRAIN}.zarr"
    finished.make("train_tiny")  # what other tests have left to do
    before = sequence_results(finished)
    shutil.rmtree(store)
    told = f"store of train/{TRAIN} missing or damaged"
    jobs = finished.plan("train_tiny")
    assert (jobs[0].rule, jobs[0].reason) == ("voxelize", told)
    output = finished.make("train_tiny")
    assert stages(output) == {"voxelize": (1, 1), "statistics": (1, 1)}
    assert f"{told}: made again" in output
    after = sequence_results(finished)
    assert {name for name in before if after[name] != before[name]} == {
        *(f"k8/train/{TRAIN}.json", f"k8/train/{TRAIN}.zarr")
    }
    assert finished.plan("train_tiny") == []


def test_weights_are_asked_for_before_anything_is_computed(finished):
    """No one listens at the port; without a result folder everything would have to be made."""
    options = ("--config", "RESULTS=elsewhere", "WEIGHTS_URL=http://127.0.0.1:9")
    for target, override, file in (
        ("train_tiny", "LOSS.VGG_PERCEPTUAL.WEIGHT=0.1", "vgg16-397923af.pth"),
        ("evaluate_tiny", "TEST.METRICS=[psnr,lpips]", "alexnet-owt-7be5be79.pth"),
    ):
        done = finished.snakemake("--cores", "2", target, *options, f"SET={override}")
        assert done.returncode != 0
        assert re.search(rf"error: .*{file}: cannot be fetched", done.stdout), done.stdout
        assert f"put it at weights/{file}" in done.stdout
        assert re.findall(r"^error: (\w+)", done.stdout, re.MULTILINE) == ["fetch_weights"]
        assert stages(done.stdout) == {}
    assert not list((finished.folder / "elsewhere").rglob("*.json"))


@pytest.mark.endurance
def test_training_killed_half_way_is_continued(finished):
    """Everything is killed at once, the scheduler too; the next call needs no repair."""
    command = finished.command("--cores", "2", "train_long")
    process = subprocess.Popen(
        command,
        cwd=finished.folder,
        env=finished.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    checkpoints = wait_for_checkpoints(finished.folder / "runs/long", process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (finished.folder / "results/train/long/weights.safetensors").exists()
    saved = interrupt(finished)
    finished.make("train_long")
    record = json.loads((finished.folder / "results/train/long/run.json").read_text())
    first, second, third = record["starts"]
    assert first["step"] == 0
    assert second["step"] >= min(checkpoints) > 0
    assert third["step"] == saved
    assert record["status"] == "finished"
    assert len(list((finished.folder / "runs/long").iterdir())) == 1


def interrupt(project: Project) -> int:
    """Press Ctrl-C in a training that goes on and has saved a step; returns the last saved."""
    process = subprocess.Popen(
        project.command("--cores", "2", "train_long"),
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    (record,) = (project.folder / "runs/long").glob("*/run.json")

    def has_saved() -> bool:
        assert process.poll() is None, process.communicate()[0]
        run = json.loads(record.read_text())
        return len(run["starts"]) == 2 and run["step"] > run["starts"][1]["step"]

    wait_until(has_saved, record)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=120)[0]
    assert process.returncode != 0
    begins, *lines, saved, then = output.splitlines()[1:]
    assert begins == "train long begins; its log: results/logs/train/long.log"
    assert all(line.startswith(("[train] ", "code has changed")) for line in lines), output
    found = re.fullmatch(
        r"\[train\] saved at step (\d+) of 12; the same command continues .*", saved
    )
    assert found is not None, output
    assert then == "continue: snakemake --cores 2 train_long"
    return int(found[1])


def wait_for_checkpoints(runs: Path, process: subprocess.Popen) -> list[int]:
    """Wait until a run has saved its state; returns the steps it was saved after."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        saved = [int(path.stem.split("_")[1]) for path in runs.glob("*/checkpoints/step_*.pt")]
        if saved:
            return saved
        assert process.poll() is None, "training ended before it was killed"
        time.sleep(0.02)
    raise AssertionError("no checkpoint in time")


def wait_until(happened: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
