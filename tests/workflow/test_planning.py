"""Plans without data, and configurations that are wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.shipped import video_presets
from vrtspike.errors import EXIT_USER_ERROR

pytestmark = pytest.mark.workflow


def test_a_fresh_clone_can_be_planned_and_says_what_to_do(clone):
    done = clone.snakemake("--dry-run")
    assert done.returncode == 0, done.stdout
    notice = done.stdout.split("\n\n")[-1]
    assert "data/gopro_spike does not exist" in notice
    assert "Set DATA.ROOT" in notice
    assert "make demo" in notice


def test_python_does_not_look_through_a_plan_before_it_ends(clone):
    """It took half a second of every Snakemake, that of a job on a node, too."""
    program = (
        "import atexit, gc, sys; atexit.register(lambda: print('kept:', gc.get_freeze_count()));"
        "from snakemake.cli import main; main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--dry-run", "demo"],
        cwd=clone.folder,
        env=clone.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kept = re.search(r"^kept: (\d+)$", done.stdout, re.MULTILINE)
    assert kept is not None
    assert int(kept[1]) > 100_000


def test_without_data_a_run_fails_with_the_same_words(clone):
    done = clone.snakemake("--cores", "1", "train_low_memory")
    assert done.returncode != 0
    assert "error: data set folder data/gopro_spike does not exist; set DATA.ROOT" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_demo_plans_without_a_notice(clone):
    done = clone.snakemake("--dry-run", "demo")
    assert done.returncode == 0, done.stdout
    assert "does not exist" not in done.stdout


def test_every_preset_has_its_targets_and_every_target_an_explanation(clone):
    presets = {path.stem for path in (clone.folder / "config/presets").glob("*.yaml")}
    listed = clone.snakemake("--list").stdout.splitlines()
    targets = dict(
        found.groups() for line in listed if (found := re.match(r"(\w+) \((.+)\)", line))
    )
    for preset in presets:
        for kind in ("train", "evaluate", "analyze_performance"):
            assert f"{kind}_{preset}" in targets
        has_spikes = preset in video_presets(clone.folder)
        assert (f"ablation_{preset}" in targets) == has_spikes
    assert {"all", "compare", "report", "demo", "sst_demo", "weights"} <= set(targets)
    rules = "".join(path.read_text() for path in (clone.folder / "rules").glob("*.smk"))
    named = set(re.findall(r"^(?:rule|checkpoint) (\w+):", rules, re.MULTILINE))
    assert named <= set(targets)
    # What one asks for first, then what is asked for by the files that it makes.
    names = list(targets)
    expected = ["all", "demo", "sst_demo", "report", "ablation", "weights", "train_baseline"]
    assert names[:7] == expected
    assert max(map(names.index, ("evaluate_demo", "compare"))) < names.index("accept")
    assert names.index("train_reproduce") < names.index("evaluate_baseline")


def test_an_unknown_target_is_answered_with_the_nearest_and_needs_no_cores(clone):
    done = clone.snakemake("train_low_memroy")
    assert done.returncode != 0
    assert done.stdout.splitlines()[1:] == [
        "error: no target and no file of this workflow: train_low_memroy; did you mean "
        "train_low_memory? snakemake --list shows them all"
    ]


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("GPUS=99", "99 GPUs are asked for, but"),
        ("NODES=2", "NODES is 2, but this is no Slurm job"),
    ],
)
def test_missing_machines_are_told_before_any_data_are_prepared(clone, setting, fault):
    done = clone.snakemake("--cores", "1", "train_demo", "--config", setting)
    assert done.returncode == EXIT_USER_ERROR, done.stdout
    assert fault in done.stdout
    assert not (clone.folder / "data").exists()


def test_a_plan_is_shown_without_the_machines_that_it_needs(clone):
    done = clone.snakemake("--rulegraph", "dot", "--config", "GPUS=99", "--", "train_demo")
    assert done.returncode == 0, done.stdout
    assert "digraph" in done.stdout


def test_missing_weights_are_told_before_any_data_are_prepared(clone):
    settings = "SET=MODEL.VRT.PRETRAINED=weights/absent.pth"
    done = clone.snakemake("--dry-run", "train_demo", "--config", settings)
    assert done.returncode == EXIT_USER_ERROR, done.stdout
    assert "MODEL.VRT.PRETRAINED: no such file: weights/absent.pth" in done.stdout


def test_a_preset_that_lacks_its_weights_disturbs_no_other(clone):
    done = clone.snakemake("--dry-run", "train_reproduce")
    assert done.returncode == EXIT_USER_ERROR, done.stdout
    assert re.search(r"MODEL.VRT.PRETRAINED: no such file: weights/006_VRT\w+.pth", done.stdout)
    done = clone.snakemake("--dry-run", "train_low_memory", "demo")
    assert done.returncode == 0, done.stdout
    assert "no such file" not in done.stdout


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config/my.yaml", "PRESETS: [demo]\nRESULT: elsewhere\n", r"my\.yaml:2: .*RESULTS"),
        ("config/presets/demo.yaml", "BASE: baseline\nTRAIM: {}\n", r"demo\.yaml:2: .*TRAIN"),
        (
            "config/presets/demo.yaml",
            "BASE: baseline\nMODEL:\n  VRT:\n    NUM_HEADS: 5\n",
            r"demo\.yaml:\d: .*EMBED_DIMS\[0\] is 96, no multiple of VRT\.NUM_HEADS, 5",
        ),
        ("config/my.yaml", "RESULTS: one\nGPUS: 0\nRESULTS: two\n", r"my\.yaml:3: .*line 1|1.*3"),
    ],
    ids=["workflow key", "preset key", "impossible", "key given twice"],
)
def test_a_wrong_configuration_is_named_by_file_and_line(clone, file, text, message):
    path = clone.folder / file
    before = path.read_text() if path.is_file() else None
    clone.write(file, text)
    overlay = ["--configfile", file] if file == "config/my.yaml" else []
    try:
        done = clone.snakemake("--dry-run", "demo", *overlay)
    finally:
        clone.write(file, before) if before is not None else path.unlink()
    assert done.returncode == EXIT_USER_ERROR
    assert re.search(message, done.stdout), done.stdout
    assert "Traceback" not in done.stdout
    assert len(re.findall("^error: ", done.stdout, re.MULTILINE)) == 1


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["train_demo", "--configfile", "nosuch.yaml"], "nosuch.yaml: no such file"),
        # What follows the option is a file to Snakemake, the target too.
        (["--configfile", "config/config.yaml", "train_demo"], "train_demo: no such file"),
    ],
)
def test_a_missing_configuration_file_is_named(clone, arguments, fault):
    done = clone.snakemake("--dry-run", *arguments)
    assert done.returncode != 0
    assert f"error: {fault}" in done.stdout
    assert "write targets before it" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_preset_that_is_not_finished_is_told_and_blocks_nothing_else(clone):
    path = clone.write("config/presets/draft.yaml", "base: baseline\nTRAIN: {EPOCHS: 3}\n")
    try:
        asked = clone.snakemake("--dry-run", "demo", "--config", "PRESETS=draft")
        own = [clone.snakemake("--dry-run", f"{kind}_draft") for kind in ("evaluate", "ablation")]
    finally:
        path.unlink()
    fault = "config/presets/draft.yaml:1: unknown key base; did you mean BASE?"
    assert asked.returncode == 0, asked.stdout
    assert asked.stdout.endswith(f"preset draft cannot be used, others can:\n{fault}\n")
    for done in own:
        assert done.returncode == EXIT_USER_ERROR, done.stdout
        assert f"error: {fault}" in done.stdout
        assert done.stdout.count(fault) == 1
        assert "Traceback" not in done.stdout


def test_a_preset_with_spikes_is_refused_for_data_without(clone):
    root = clone.folder / "data/gopro_spike"
    for split in ("train", "test"):
        for kind in ("blur", "sharp"):
            clone.write(f"data/gopro_spike/{split}/s/{kind}/000001.png", "only the name counts")
    try:
        done = clone.snakemake("--dry-run", "train_low_memory")
    finally:
        shutil.rmtree(root)
    assert done.returncode == EXIT_USER_ERROR, done.stdout
    assert "error: preset low_memory, data/gopro_spike: no sequence of this data" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_cluster_profile_speaks_of_rules_that_exist(repository: Path):
    """Snakemake ignores settings for unknown rules silently."""
    profile = YAML(typ="safe").load(repository / "workflow/profiles/slurm/config.yaml")
    rules = "".join(path.read_text() for path in (repository / "rules").glob("*.smk"))
    for section in ("set-threads", "set-resources"):
        for rule in profile[section]:
            assert re.search(rf"^(rule|checkpoint) {rule}:", rules, re.MULTILINE), rule
