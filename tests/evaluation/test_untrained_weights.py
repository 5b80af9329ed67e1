"""A run without steps (TRAIN.MAX_STEPS 0): the weights of its start, evaluated and shown."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from tests.helpers.small_run import SmallRun, arrays, write_light_run
from tests.reporting.results import make_evaluation, make_run
from vrtspike.analysis.comparisons.compare import (
    comparison_of_runs_text,
    find_candidates,
    write_comparison,
)
from vrtspike.analysis.performance import analyze_run, write_analysis
from vrtspike.commands.main import run_command
from vrtspike.config.loading import override_settings
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.deblurring.leaderboard import write_leaderboard
from vrtspike.deblurring_settings import DeblurringSettings, require_deblurring_settings
from vrtspike.evaluation.evaluate import evaluate_run
from vrtspike.io.files import read_json, write_json
from vrtspike.io.records import read_records
from vrtspike.reporting.page import write_report_page
from vrtspike.reporting.run_data import read_run_on_page
from vrtspike.restoration.loading import load
from vrtspike.runs import named_models
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.identity import identify, write_statistics
from vrtspike.runs.published import publish, read_published
from vrtspike.staleness.training_code import record_code
from vrtspike.training.run import train_preset

OVERRIDES = (
    "TRAIN.MAX_STEPS=0",
    # What a training would need, and these data do not have.
    "DATA.CROP_SIZE=512",
    "DATA.VALIDATION=held_out",
    "DATA.RATIO_AUGMENT=0.5",
    "TRAIN.BATCH_SIZE=100",
    # What would round, average or profile.
    "TRAIN.PRECISION=bf16-true",
    "LOG.PROFILE_STEPS=[1,2]",
    "LOG.ON_END=null",
    "LOG.WANDB=null",
    "LOG.MLFLOW=null",
)


@dataclass(frozen=True)
class Kept:
    """Paths of a run of no steps: its start, its own folder and those of results."""

    start: Path
    run: Path
    results: Path

    @property
    def train(self) -> Path:
        return self.results / "train/kept"


def keep(small_run: SmallRun, start: Path, folder: Path, name: str) -> Kept:
    """Run, publish and evaluate a preset of no steps.

    Args:
        small_run: whose data are evaluated.
        start: result folder of a light run, which ``name`` names.
        folder: for the run and the results.
        name: MODEL.PRETRAINED.
    """
    start_settings = require_deblurring_settings(read_published(start).settings)
    above = parse_overrides([*OVERRIDES, f"MODEL.PRETRAINED={name}"])
    settings = override_settings(start_settings, above, "preset kept")
    assert isinstance(settings, DeblurringSettings)
    kept = Kept(start, folder / "run", folder / "results")
    kept.run.mkdir(parents=True)
    identity = identify("kept", settings, small_run.dataset)
    identity.write(kept.run)
    record_code(kept.run, Path(__file__).parents[2] / "scripts/train.py", settings.TASK)
    write_statistics(identity, kept.run)
    assert train_preset(identity, kept.run) == 0
    publish(kept.run, kept.train)
    output = kept.results / "evaluate/kept"
    output.mkdir(parents=True)
    weights, run = kept.train / "weights.safetensors", read_published(kept.train)
    evaluate_run(EvaluationJob(weights, run, small_run.dataset, output, torch.device("cpu")))
    return kept


@pytest.fixture(scope="module")
def kept(small_run, tmp_path_factory) -> Kept:
    folder = tmp_path_factory.mktemp("kept")
    write_light_run(small_run, folder / "start")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        made = keep(small_run, folder / "start", folder, str(folder / "start"))
    # Beside a training, as the workflow leaves it.
    make_run(made.results, "own")
    make_evaluation(made.results, "own")
    return made


def test_the_weights_of_the_start_are_published_bit_for_bit(kept):
    expected, result = (
        load_file(folder / "weights.safetensors") for folder in (kept.start, kept.train)
    )
    assert result.keys() == expected.keys()
    for name, tensor in expected.items():
        assert result[name].dtype == tensor.dtype
        assert torch.equal(result[name], tensor), name


def test_their_training_data_are_those_of_the_start(kept):
    names = ("start", "train")
    start, published = (read_json(getattr(kept, name) / "statistics.json") for name in names)
    assert "limits" in start
    assert published == start


def test_no_clip_is_read_and_no_step_is_made(kept):
    record = read_json(kept.train / "run.json")
    assert (record["status"], record["step"], record["total_steps"]) == ("finished", 0, 0)
    assert (record["samples"], record["metrics"]) == (0, {})
    assert read_records(kept.run / "metrics.jsonl") == []
    assert pd.read_csv(kept.train / "metrics.csv").empty
    left = {path.name for path in kept.run.iterdir()}
    assert left.isdisjoint({"pictures", "best.safetensors"})
    assert [path.name for path in (kept.run / "logs").iterdir()] == ["memory.jsonl"]
    assert not list((kept.run / "checkpoints").glob("*"))


def test_it_restores_and_is_packed_like_any_run(kept, sequence, tmp_path):
    clip = arrays(sequence)
    expected = load(kept.start, device="cpu").restore(*clip)
    np.testing.assert_array_equal(load(kept.train, device="cpu").restore(*clip), expected)
    assert not run_command(["pack", str(kept.train), "-o", str(tmp_path / "packed")])
    np.testing.assert_array_equal(load(tmp_path / "packed", device="cpu").restore(*clip), expected)
    card = (tmp_path / "packed/README.md").read_text()
    assert re.search(r"^The run trained nothing; its metrics are of `\w+`, digest", card, re.M)
    assert "- none: the weights stay as they came\n- begins with the weights of MODEL.P" in card
    assert "steps of" not in card
    assert "Trained on" not in card
    for path in (tmp_path / "packed").iterdir():
        assert str(kept.start.parent).encode() not in path.read_bytes(), path.name


def test_an_evaluation_names_the_training_data_of_the_weights(kept, small_run, tmp_path):
    summary = read_json(kept.results / "evaluate/kept/summary.json")
    message = "nothing was trained: the weights are those of start, unchanged"
    # The start is a run of the same data set.
    assert summary["warnings"] == [f"{message}: they were trained on this data set"]
    other = shutil.copytree(kept.start, tmp_path / "start")
    contents = read_json(other / "statistics.json") | {"dataset": "far", "dataset_digest": "f"}
    write_json(other / "statistics.json", contents)
    write_json(other / "run.json", {"status": "finished"})
    result = keep(small_run, other, tmp_path / "far", str(other))
    (warning,) = read_json(result.results / "evaluate/kept/summary.json")["warnings"]
    assert warning == f"{message}: they were trained on the data set far"


def test_weights_of_the_package_have_not_seen_the_scenes(kept, small_run, tmp_path, monkeypatch):
    monkeypatch.setattr(named_models, "bundled_folder", (tmp_path / "package").joinpath)
    shutil.copytree(kept.start, tmp_path / "package/general")
    path = tmp_path / "package/general/statistics.json"
    write_json(path, read_json(path) | {"dataset_digest": "of the package"})
    write_json(path.with_name("run.json"), {"status": "finished"})
    result = keep(small_run, tmp_path / "package/general", tmp_path / "run", "general")
    (warning,) = read_json(result.results / "evaluate/kept/summary.json")["warnings"]
    assert warning == (
        "nothing was trained: the weights are those of general, unchanged: they have not seen "
        "these scenes"
    )


def test_a_run_without_steps_has_no_findings(kept, tmp_path, capsys):
    analysis = analyze_run(kept.train)
    assert analysis.findings == []
    write_analysis(analysis, tmp_path)
    page = (tmp_path / "findings.html").read_text()
    assert "Nothing was trained: the weights are those of start, unchanged." in page
    assert "Nothing to fix" not in page
    assert not run_command(["analyze", str(kept.train)])
    assert capsys.readouterr().out.startswith("Nothing was trained: the weights are those of start")


def test_a_comparison_lists_it_without_speed_and_memory(kept, tmp_path):
    folders = [kept.results / "train/own", kept.train]
    candidates = find_candidates(folders)
    table = write_comparison(candidates, tmp_path).set_index("preset")
    costs = ["forward ms", "step ms", "samples/s", "waits for data", "memory MB", "GPU peak MB"]
    assert table.loc["own", costs].notna().all()
    assert table.loc["kept", costs].isna().all()
    assert table.loc["kept", ["psnr restored", "parameters"]].notna().all()
    message = "kept: nothing was trained: the weights are those of start, unchanged: they were tr"
    assert message in (tmp_path / "table.html").read_text()
    for kind in ("text", "csv", "markdown"):
        assert "kept" in comparison_of_runs_text(candidates, kind)


def test_the_leaderboard_lists_it(kept, tmp_path):
    table = write_leaderboard([kept.results / "train/own", kept.train], tmp_path)
    row = table.set_index("model").loc["kept"]
    assert row["counts"]
    assert row["parameters"] > 0
    assert row["note"].startswith("nothing was trained: the weights are those of start")


def test_the_page_shows_it_next_to_a_training(kept):
    trained, initial = (
        read_run_on_page(kept.results, name, kept.results) for name in ("own", "kept")
    )
    assert trained["training_seconds"] is not None
    assert initial["training_seconds"] is None
    assert initial["curves"] == {"train": {}, "validation": {}}
    assert initial["performance"]["findings"] == []
    training = dict(initial["origin"]["facts"])["training"]
    assert training == "nothing was trained: the weights are those of start, unchanged"
    page = kept.results / "index.html"
    headline = write_report_page(kept.results, ["kept"], kept.results, page)
    assert headline.facts[0].startswith("nothing was trained: the weights are those of start")
    assert not [fact for fact in headline.facts if fact.startswith("trained:")]
    assert "Validations while training" not in page.read_text()
    headline = write_report_page(kept.results, ["own", "kept"], kept.results, page)
    assert re.search(r"trained: 40 steps", "\n".join(headline.facts))
