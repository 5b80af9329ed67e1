"""One complete run, and what does and does not run again after a change."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.workflow.project import Project, stages
from tests.workflow.staleness import why
from vrtspike.errors import EXIT_USER_ERROR

pytestmark = [
    pytest.mark.core,
    pytest.mark.endurance,
    pytest.mark.workflow,
    pytest.mark.slow,
]

TRAIN = "GOPR0001_11_00"
STORE = f"data/tiny/k8/train/{TRAIN}.zarr"
SPIKES = f"data/tiny/train/{TRAIN}/spike/000002.dat"


OPEN = "decided when the data are made again"


def test_publishes_every_result(finished):
    results = finished.folder / "results"
    for preset in ("tiny", "other"):
        for name in ("weights.safetensors", "settings.json", "statistics.json", "metrics.csv"):
            assert (results / "train" / preset / name).is_file()
        evaluated = results / "evaluate" / preset
        summary = json.loads((evaluated / "summary.json").read_text())
        assert (summary["preset"], summary["frames"]) == (preset, 3)
        assert set(summary["spikes_alone"]) == {"psnr", "ssim", "tof"}
        assert len(list((evaluated / "pictures").glob("*.png"))) == 1
        examples = json.loads((evaluated / "examples/examples.json").read_text())
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
    # The search box of the report looks at paths.
    assert '"results/evaluate/tiny/metrics.html": {' in report


def test_a_run_is_shown_in_a_line_per_stage(finished):
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
    assert "  psnr " in (logs / "evaluate/tiny.log").read_text()


SOURCE = ("src/vrtspike/training/loop.py", "MAX_SKIPPED_IN_A_ROW = 20", "MAX_SKIPPED_IN_A_ROW = 21")
AGAIN = "what it reads is made again"
LATER = ("alignment tiny", "accept tiny", "voxelize tiny", "statistics tiny")


@contextlib.contextmanager
def other_contents(project: Project) -> Iterator[None]:
    """As many bytes as before."""
    path = project.folder / SPIKES
    contents = path.read_bytes()
    path.write_bytes(contents[:100] + bytes([contents[100] ^ 1]) + contents[101:])
    try:
        yield
    finally:
        path.write_bytes(contents)


@contextlib.contextmanager
def new_sequence(project: Project) -> Iterator[None]:
    split = project.folder / "data/tiny/train"
    shutil.copytree(split / TRAIN, split / "GOPR0009_11_00")
    try:
        yield
    finally:
        shutil.rmtree(split / "GOPR0009_11_00")


@contextlib.contextmanager
def comments(project: Project) -> Iterator[None]:
    os.utime(project.folder / SPIKES)
    voxels = "src/vrtspike/deblurring/data/store/voxels.py"
    with (
        project.replaced(voxels, "def voxelize(", "# Why\ndef voxelize("),
        project.replaced("src/vrtspike/training/loop.py", '"""', '"""New words. '),
        project.replaced("rules/voxelize.smk", "    input:", "\n    input:   "),
    ):
        yield


@contextlib.contextmanager
def cut(project: Project, *names: str) -> Iterator[None]:
    """Manifests lose their second halves."""
    whole = {project.folder / "results/data/tiny" / name: b"" for name in names}
    for path in whole:
        whole[path] = path.read_bytes()
        path.write_bytes(whole[path][: len(whole[path]) // 2])
    try:
        yield
    finally:
        for path, contents in whole.items():
            path.write_bytes(contents)


@contextlib.contextmanager
def lost(project: Project, *names: str) -> Iterator[None]:
    """As after a job that failed, or a user who needs space."""
    paths = [project.folder / "results" / name for name in names]
    aside = [path.rename(project.folder / f"aside{n}") for n, path in enumerate(paths)]
    try:
        yield
    finally:
        for path, place in zip(paths, aside, strict=True):
            place.rename(path)


MISSED = "no result yet"
LATE = {
    "data/tiny/ingest/shards/0-of-1.json": "ingest tiny",
    "data/tiny/alignment.csv": "alignment tiny",
    "data/tiny/k8/accepted.json": "accept tiny",
    "data/tiny/k8/dataset.json": "statistics tiny",
    "evaluate/tiny/summary.json": "evaluate tiny",
    "performance/tiny/findings.json": "analyze_performance tiny",
    "compare/table.csv": "compare",
    "index.html": "page",
}
LOST = [
    ("data/tiny/survey.json", "train_tiny", "survey tiny", MISSED, ["ingest tiny", *LATER]),
    (
        STORE,
        "train_tiny",
        "voxelize tiny",
        f"results missing or damaged: 1, the first train/{TRAIN}",
        LATER[3:],
    ),
    ("train/tiny/weights.safetensors", "evaluate_tiny", "train tiny", MISSED, ["evaluate tiny"]),
]
"""What is lost, what is asked for, the stage that makes it, why, and those after it."""
DAMAGED = {
    "survey.json": "survey tiny",
    "ingest/shards/0-of-1.json": "ingest tiny",
    "k8/accepted.json": "accept tiny",
    "k8/shards/0-of-1.json": "voxelize tiny",
    "k8/dataset.json": "statistics tiny",
}
STALE: dict[str, tuple[Callable[[Project], Any], list[str], dict[str, str]]] = {
    # Before any raw file has another date than that with which it was checked.
    "data that were removed": (lambda p: lost(p, "data"), ["all"], {}),
    "a touched raw file, comments, layout, settings that change no result": (
        comments,
        [
            *("all", "--config", "GPUS=3", "RUNS=elsewhere"),
            "SETTINGS={TEST: {NUM_WORKERS: 1}, DATALOADER: {TOTAL_WORKERS: 1}}",
        ],
        {},
    ),
    "a changed raw file": (
        other_contents,
        ["train_tiny"],
        {"ingest tiny": f"raw files of train/{TRAIN} changed"} | dict.fromkeys(LATER, AGAIN),
    ),
    "a new sequence": (
        new_sequence,
        ["train_tiny"],
        {"survey tiny": "names below the data's folder changed"}
        | dict.fromkeys(["ingest tiny", *LATER], AGAIN),
    ),
    "a learning rate, settings of the evaluation": (
        lambda p: p.replaced("config/presets/other.yaml", "1.0e-4", "3.0e-4"),
        [
            *("evaluate_tiny", "train_other"),
            *("--config", "SETTINGS={TEST: {TILE: {SIZE: 64}}}"),
        ],
        {
            "evaluate tiny": "TEST.TILE.SIZE 96 -> 64",
            "train other": "TRAIN.OPTIM.LR 0.0001 -> 0.0003",
        },
    ),
    "code of trainings, asked for": (
        lambda p: p.replaced(*SOURCE),
        ["evaluate_tiny", "--config", "RETRAIN=tiny"],
        {"train tiny": "asked for", "evaluate tiny": AGAIN},
    ),
    **{
        f"a lost {name}": (
            lambda project, name=name: lost(project, name),
            [target],
            {stage: reason} | dict.fromkeys(later, AGAIN),
        )
        for name, target, stage, reason, later in LOST
    },
    "results of many stages lost": (
        lambda p: lost(p, *LATE),
        ["all"],
        dict.fromkeys(LATE.values(), MISSED) | {"voxelize tiny": AGAIN},
    ),
    "damaged manifests": (
        lambda p: cut(p, *DAMAGED),
        ["train_tiny"],
        {
            **{"alignment tiny": AGAIN},
            **{stage: f"results/data/tiny/{name} is damaged" for name, stage in DAMAGED.items()},
        },
    ),
}
"""A change, what is asked for, and the stages that are stale, each with its reason."""


@pytest.mark.parametrize("case", STALE)
def test_what_is_stale_is_reported_with_its_reason(finished, case):
    change, target, expected = STALE[case]
    changed = change(finished)
    with changed if hasattr(changed, "__enter__") else contextlib.nullcontext():
        found = why(finished, *target)
    # Whether it runs is known when the data are there again.
    found = {stage: reason for stage, reason in found.items() if OPEN not in reason}
    reasons = {stage: reason.partition(";")[0] for stage, reason in found.items()}
    assert reasons == expected
    assert all("; took " in reason for reason in found.values())


def test_nodes_and_gpus_of_the_configuration_reach_the_scheduler(finished):
    done = finished.snakemake("--dry-run", "train_long", "--config", "NODES=2", "GPUS=4")
    (line,) = re.findall(r"resources: (.*nodes=.*)", done.stdout)
    assert {"nodes=2", "tasks=2", "mpi=srun", "gres=gpu:4"} <= set(line.split(", "))


def test_changed_training_code_is_reported_and_an_unknown_target_is_refused(finished):
    with finished.replaced(*SOURCE):
        printed = finished.snakemake("--dry-run", "evaluate_tiny").stdout
    assert printed.splitlines()[-2:] == [
        "nothing to be done",
        "tiny was trained by other code: training/loop.py. Its weights stay; to "
        "train it again: snakemake train_tiny --config RETRAIN=tiny",
    ]
    done = finished.python("-m", "vrtspike", "why", "nosuch")
    assert done.returncode == EXIT_USER_ERROR
    assert "no target and no file of this workflow: nosuch" in done.stderr


def test_new_voxel_code_with_equal_voxels_trains_nothing(finished):
    before = sequence_results(finished)
    with finished.replaced(
        "src/vrtspike/deblurring/data/store/voxels.py",
        "return count_packed(bits, bin_edges(Exposure(0, len(bits), sharp), bins))",
        "return 1 * count_packed(bits, bin_edges(Exposure(0, len(bits), sharp), bins))",
    ):
        reasons = why(finished, "train_tiny")
        output = finished.make("train_tiny")
    assert reasons["voxelize tiny"].startswith("code of vrtspike/deblurring/data/store/voxels.py; ")
    assert reasons["train tiny"].startswith(f"{OPEN}; took ")
    assert stages(output) == {"voxelize": (1, 1), "statistics": (1, 1)}
    after = sequence_results(finished)
    assert all((after[name] != before[name]) == name.startswith("k8/") for name in before)


def sequence_results(project: Project) -> dict[str, int]:
    """Manifest and store of every sequence; the number changes when it is written again."""
    folder = project.folder / "results/data/tiny"
    found = [path for place in ("ingest", "k8") for path in folder.glob(f"{place}/t*/*")]
    return {str(path.relative_to(folder)): path.stat().st_ino for path in found}


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
