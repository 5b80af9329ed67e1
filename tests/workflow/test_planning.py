"""Plans without data, and configurations that are wrong."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess

import pytest

from tests.helpers.presets import deblurring_presets
from tests.workflow.project import make_tiny_data
from vrtspike.system.errors import EXIT_USER_ERROR

pytestmark = pytest.mark.workflow


def test_a_plan_of_a_fresh_clone_ends_with_stages_and_missing_data(cloned_project):
    done = cloned_project.snakemake("--dry-run")
    assert done.returncode == 1, done.stdout
    end = done.stdout.rstrip().splitlines()[-9:]
    assert "survey gopro_spike: no result yet" in end[:5]
    assert end[5] == "and 8 more stages; vrtspike why lists them all"
    assert end[6].startswith("Before this can run: data set folder data/gopro_spike does not exist")
    assert "Set DATA.ROOT" in end[7]
    assert "snakemake --cores all demo" in end[8]


def test_a_plan_imports_nothing_that_draws_or_learns_and_has_no_notices(
    cloned_project, monkeypatch
):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    done = cloned_project.snakemake("--dry-run", "demo")
    assert done.returncode == 0, done.stdout
    output = done.stdout
    # Other presets lack their weights, and that is not reported where they are not asked for.
    assert "no such file" not in output
    assert "rerun-triggers" not in output
    imported = set(re.findall(r"^import time:.*\| +(\w+)$", output, re.MULTILINE))
    assert "snakemake" in imported
    assert not imported & {"torch", "matplotlib", "plotly", "sklearn", "xarray"}


def test_every_preset_has_its_targets_and_every_target_an_explanation(cloned_project):
    presets = {path.stem for path in (cloned_project.folder / "config/presets").glob("*.yaml")}
    listed = cloned_project.snakemake("--list").stdout.splitlines()
    targets = dict(
        match.groups() for line in listed if (match := re.match(r"(\w+) \((.+)\)", line))
    )
    for preset in presets:
        for kind in ("train", "evaluate", "analyze_performance"):
            assert f"{kind}_{preset}" in targets
        has_spikes = preset in deblurring_presets(cloned_project.folder)
        assert (f"ablation_{preset}" in targets) == has_spikes
    assert {"all", "compare", "report", "demo", "sst_demo", "general", "weights"} <= set(targets)
    rules = "".join(path.read_text() for path in (cloned_project.folder / "rules").glob("*.smk"))
    named = set(re.findall(r"^(?:rule|checkpoint) (\w+):", rules, re.MULTILINE))
    assert named <= set(targets)


ABLATION = "preset demo-shuffled-spikes: .*CLIP_LEN is 2;"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("--cores 1 train_low_memory", "data set folder data/gopro_spike does not exist; set DATA"),
        (
            "--dry-run train_reproduce",
            r"preset reproduce: MODEL.VRT.PRETRAINED: no such file: weights/006_VRT\w+.pth",
        ),
        ("--dry-run demo --config DATA.ROOT=/x", "--config DATA.ROOT=/x: keys with dots belong"),
        (
            "--dry-run trian_demo",
            r"no target and no file of this workflow: trian_demo; did you mean train_demo\?",
        ),
        # Snakemake takes all words after the option as files, the target, too.
        ("--dry-run --configfile config/config.yaml train_demo", r"\S*train_demo: no such file"),
        pytest.param(
            *("--cores 1 ablation_demo --config SET=DATA.CLIP_LEN=2", ABLATION),
            marks=pytest.mark.endurance,
        ),
    ],
)
def test_a_fault_is_one_error_before_anything_is_computed(cloned_project, arguments, fault):
    """One fault of each kind; tests/config and tests/deblurring/planning have the others."""
    done = cloned_project.snakemake(*arguments.split())
    assert done.returncode != 0
    assert len(re.findall("^error: ", done.stdout, re.MULTILINE)) == 1
    assert re.search(rf"^ *error: {fault}", done.stdout, re.MULTILINE), done.stdout
    assert "cannot be used" not in done.stdout
    assert "Traceback" not in done.stdout
    assert not (cloned_project.folder / "data").exists()


def test_changes_that_a_profile_leaves_out_are_named(cloned_project, tmp_path):
    (tmp_path / "config.yaml").write_text("rerun-triggers: [mtime, input]\n")
    notice = "rerun-triggers (command line or profile) leaves out params, code: changed settings,"
    done = cloned_project.snakemake("--dry-run", "demo", "--profile", str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert notice in done.stdout


@pytest.mark.parametrize("is_closed", [False, True], ids=["", "with standard error closed"])
def test_ctrl_c_before_a_run_begins_leaves_no_traceback(cloned_project, is_closed):
    closing = ["sh", "-c", 'exec "$@" 2>&-', "sh"] if is_closed else []
    process = subprocess.Popen(
        [*closing, *cloned_project.command("--dry-run", "demo")],
        cwd=cloned_project.folder,
        env=cloned_project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    while not process.stdout.readline().strip().lower().startswith("host: "):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=800)
    assert process.returncode == 128 + signal.SIGINT
    assert ("stopped before anything was run" in output.splitlines()) != is_closed
    assert "Traceback" not in output


def test_a_preset_that_is_not_finished_is_reported_and_blocks_nothing_else(cloned_project):
    path = cloned_project.write("config/presets/draft.yaml", "base: baseline\nTRAIN: {EPOCHS: 3}\n")
    try:
        plan = cloned_project.snakemake("--dry-run", "demo", "--config", "PRESETS=draft")
        plans = [
            cloned_project.snakemake("--dry-run", f"{kind}_draft")
            for kind in ("evaluate", "ablation")
        ]
    finally:
        path.unlink()
    fault = "config/presets/draft.yaml:1: unknown key base; did you mean BASE?"
    assert plan.returncode == 0, plan.stdout
    assert f"preset draft cannot be used, others can:\n{fault}\n" in plan.stdout
    for done in plans:
        assert done.returncode == EXIT_USER_ERROR, done.stdout
        assert f"error: {fault}" in done.stdout
        assert done.stdout.count(fault) == 1
        assert "Traceback" not in done.stdout


def test_the_ablation_of_the_default_preset_is_planned_with_all_its_models(cloned_project):
    data = cloned_project.folder / "data"
    make_tiny_data(data / "gopro_spike")
    try:
        stages = cloned_project.why("ablation")
    finally:
        shutil.rmtree(data)
    models = ("light", "light-without-spikes", "light-shuffled-spikes")
    assert {f"train {model}" for model in models} < stages.keys()


@pytest.mark.endurance
def test_variants_of_an_ablation_are_trained_like_presets_but_are_no_targets(cloned_project):
    assert "-without-spikes" not in cloned_project.snakemake("--list").stdout
    stages = cloned_project.why("results/train/demo-without-spikes/weights.safetensors")
    assert "train demo-without-spikes" in stages
