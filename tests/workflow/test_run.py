"""One complete run, and what its user is told."""

from __future__ import annotations

import json
import re

import pytest

from tests.workflow.project import Project, stages
from vrtspike.system.errors import EXIT_USER_ERROR

pytestmark = [
    pytest.mark.core,
    pytest.mark.endurance,
    pytest.mark.workflow,
    pytest.mark.slow,
]

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
    # The folder in which Snakemakes list their files; this one has ended.
    assert [path.name for path in (results / "logs/snakemakes").iterdir()] == ["lock"]


def test_the_report_is_one_file_that_needs_no_network(finished):
    report = (finished.folder / "results/report.html").read_text()
    loaded = re.findall(r"""(?:src|href)=["'](https?:[^"']+)""", report)
    assert [address for address in loaded if not address.endswith(("LICENSE", ".md"))] == []
    for title in ("Metrics", "Pictures", "Training", "Performance", "Comparison"):
        assert f'"{title}"' in report
    # The search box of the report looks at paths.
    assert '"results/evaluate/tiny/metrics.html": {' in report


def test_a_run_is_shown_in_a_line_per_stage(finished):
    output = (finished.folder / "terminal.txt").read_text()
    counts = stages(output)
    assert [counts.get(name) for name in ("survey", "ingest", "voxelize", "train", "evaluate")] == [
        *((1, 1), (1, 1), (1, 1), (2, 2), (2, 2))
    ]
    assert list(counts)[:3] == ["survey", "ingest", "alignment"]
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


def test_nodes_and_gpus_of_the_configuration_reach_the_scheduler(finished):
    done = finished.snakemake("--dry-run", "train_long", "--config", "NODES=2", "GPUS=4")
    (line,) = re.findall(r"resources: (.*nodes=.*)", done.stdout)
    assert {"nodes=2", "tasks=2", "mpi=srun", "gres=gpu:4"} <= set(line.split(", "))


@pytest.mark.parametrize("gpus", [0, 1])
def test_an_evaluation_asks_a_cluster_for_as_many_gpus_as_are_wanted(finished, gpus):
    profile = ("--profile", "workflow/profiles/slurm", "--cores", "2")
    done = finished.snakemake("--dry-run", *profile, "evaluate_long", "--config", f"GPUS={gpus}")
    evaluation = done.stdout.partition("rule evaluate:")[2].partition("rule ")[0]
    (resources,) = re.findall(r"resources: (.*)", evaluation)
    assert f"gpu={gpus}" in resources.split(", ")


def test_changed_training_code_is_reported_and_an_unknown_target_is_refused(finished):
    with finished.replaced(*SOURCE):
        printed = finished.snakemake("--dry-run", "evaluate_tiny").stdout
    assert printed.splitlines()[-2:] == [
        "nothing to be done",
        "tiny was trained by other code: training/loop.py. Its weights stay; to "
        "train it again: snakemake --cores all train_tiny --config RETRAIN=tiny",
    ]
    done = finished.python("-m", "vrtspike", "why", "nosuch")
    assert done.returncode == EXIT_USER_ERROR
    assert "no target and no file of this workflow: nosuch" in done.stderr


def test_new_voxel_code_with_equal_voxels_trains_nothing(finished):
    before = sequence_results(finished)
    with finished.replaced(
        "src/vrtspike/data/voxels/normalization.py",
        "voxels = np.bincount(counts[steps == value].ravel(), minlength=value + 1)",
        "voxels = 1 * np.bincount(counts[steps == value].ravel(), minlength=value + 1)",
    ):
        reasons = finished.why("train_tiny")
        output = finished.make("train_tiny")
    assert reasons["voxelize tiny"].startswith("code of vrtspike/data/voxels/normalization.py; ")
    assert reasons["train tiny"].startswith(f"{OPEN}; took ")
    assert stages(output) == {"voxelize": (1, 1), "statistics": (1, 1)}
    after = sequence_results(finished)
    assert all((after[name] != before[name]) == name.startswith("k8/") for name in before)


def sequence_results(project: Project) -> dict[str, int]:
    """Manifest and store of every sequence; the number changes when it is written again."""
    folder = project.folder / "results/data/tiny"
    paths = [path for place in ("ingest", "k8") for path in folder.glob(f"{place}/t*/*")]
    return {str(path.relative_to(folder)): path.stat().st_ino for path in paths}


def test_missing_weights_are_refused_before_anything_is_computed(finished):
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
