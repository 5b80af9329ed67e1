"""Training by `fit`: best weights, records, seeds, profiles and invalid settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch._inductor.exc import InductorError

from tests.training.forecast import Disturbed, Forecaster, ForecastObjective, Waves
from vrtspike.io.records import read_records
from vrtspike.system.errors import RunError, UserError
from vrtspike.training.fit import fit
from vrtspike.training.run import TrainingOutcome

TRAIN = {
    "EPOCHS": 3,
    "BATCH_SIZE": 2,
    "GRADIENT_ACCUMULATION_STEPS": 2,
    "PRECISION": "bf16-mixed",
    "OPTIM": {"LR": 1e-2},
}
CLASSES = {"model_class": Forecaster, "dataset_class": Waves}


def run(
    folder: Path,
    objective: Any = None,
    seed: int = 0,
    identity: Any = None,
    validation: Any = None,
    **train: Any,
) -> TrainingOutcome:
    return fit(
        folder,
        objective or ForecastObjective(),
        **CLASSES,
        model_parameters={"width": 8},
        dataset_parameters={"count": 10},
        validation_parameters=validation or {"count": 4},
        identity=identity,
        settings={
            "SEED": seed,
            "TRAIN": TRAIN | train,
            "DATALOADER": {"TRAIN_WORKERS": 0, "VAL_WORKERS": 0},
            "LOG": {"TENSORBOARD": False, "PROFILE_STEPS": [2, 3]},
        },
        device="cpu",
    )


class Overfitting(ForecastObjective):
    """Reports a skill that rises once and then falls, whatever the model does.

    A validation has four batches.
    """

    skills = (0.25, 0.5, 0.375, 0.125)

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def metrics(self, output, batch):
        self.count += 1
        return [{"skill": self.skills[(self.count - 1) // 4]} for _ in output]


def test_early_stopping_publishes_the_weights_of_the_best_validation(tmp_path):
    settings = {
        "TRAIN": TRAIN | {"MAX_STEPS": 20, "EPOCHS": 9, "EARLY_STOPPING": {"PATIENCE": 2}},
        "DATALOADER": {"TRAIN_WORKERS": 0, "VAL_WORKERS": 0},
        "LOG": {"TENSORBOARD": False, "VAL_EVERY_STEPS": 2},
    }
    outcome = fit(
        tmp_path,
        Overfitting(),
        **CLASSES,
        model_parameters={"width": 8},
        dataset_parameters={"count": 10},
        validation_parameters={"count": 4},
        identity={},
        settings=settings,
        device="cpu",
    )
    assert (outcome.status, outcome.step) == ("finished", 8)
    published = load_file(tmp_path / "weights.safetensors")
    best = load_file(tmp_path / "best.safetensors")
    saved = torch.load(tmp_path / "checkpoints/step_00000008.pt", weights_only=False)
    for name, value in published.items():
        assert torch.equal(value, best[name])
        assert torch.equal(value, outcome.model.state_dict()[name])
    assert not all(torch.equal(value, saved["model"][name]) for name, value in published.items())


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, TrainingOutcome]:
    folder = tmp_path_factory.mktemp("fit")
    return folder, run(folder)


def test_every_epoch_has_its_time_and_samples(finished):
    folder, outcome = finished
    assert (outcome.status, outcome.step) == ("finished", 7)
    epochs = [r for r in read_records(folder / "metrics.jsonl") if r["kind"] == "epoch"]
    # Five batches of two are an epoch, a step takes two of them: it ends within steps 3, 5 and 8.
    assert [(r["epoch"], r["step"], r["samples"]) for r in epochs] == [
        (1, 3, 12),
        (2, 5, 8),
        (3, 7, 8),
    ]
    for record in epochs:
        # Seconds are rounded to three digits, the rate to four; either counts on a slow machine.
        rate = record["samples"] / record["seconds"]
        rounding = 6e-4 * rate / record["seconds"] + 6e-5
        assert record["samples_per_second"] == pytest.approx(rate, abs=rounding)


def test_the_summary_contains_the_arithmetic(finished):
    (path,) = (finished[0] / "logs").glob("timing_*.jsonl")
    summary = read_records(path)[-1]
    (work,) = [r for r in read_records(path) if r["kind"] == "work"]
    # Three convolutions of 3 x 3 on 16 x 16 pixels, a multiplication and an addition each; forward
    # and twice as much backward.
    products = 9 * 16 * 16 * (3 * 8 + 8 * 8 + 8 * 2)
    assert work["flops_per_sample"] == 3 * 2 * products
    rate = summary["samples_per_second"] * work["flops_per_sample"]
    assert summary["flops_per_second"] == pytest.approx(rate, rel=1e-3)
    assert 0 < summary["flop_utilisation"] < 1


def test_profiled_steps_leave_a_trace_and_a_table(finished):
    logs = finished[0] / "logs"
    assert "convolution" in (logs / "profile_2-3.txt").read_text()
    events = json.loads((logs / "profile_2-3.json").read_text())["traceEvents"]
    assert any("optimizer" in event["name"].lower() for event in events if "name" in event)


def test_the_run_describes_itself(finished):
    record = json.loads((finished[0] / "run.json").read_text())
    assert (record["name"], record["status"]) == ("ForecastObjective", "finished")
    assert record["dataset"].endswith("forecast.Waves")
    # Three convolutions of 3 x 3 with a bias each.
    assert record["parameters"] == 9 * (3 * 8 + 8 * 8 + 8 * 2) + 8 + 8 + 2
    assert (record["total_steps"], record["step"], record["processes"]) == (7, 7, 1)
    checkpoint = torch.load(finished[0] / "checkpoints" / "step_00000007.pt", weights_only=True)
    # What a launcher has to know before it chooses GPUs.
    assert record["micro_batches"] == checkpoint["micro_batches"]
    assert checkpoint["fingerprint"] == record["fingerprint"]


def test_the_seed_decides_the_first_weights(tmp_path):
    # So small a rate leaves the weights where they began.
    train = {"MAX_STEPS": 1, "OPTIM": {"LR": 1e-12}, "SCHED": {"MIN_LR": 0}}
    result = []
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        outcome = run(tmp_path / name, seed=seed, **train)
        result.append(outcome.model.inlet.weight.detach().clone())
    assert torch.equal(result[0], result[1])
    assert not torch.allclose(result[0], result[2], atol=1e-3)


def test_a_folder_belongs_to_one_task(finished):
    weighted = ForecastObjective()
    weighted.weight = 2.0
    for other in (
        {"OPTIM": {"LR": 1e-3}},
        {"identity": {"data": "others"}},
        {"objective": weighted},
    ):
        with pytest.raises(RunError, match="belong to run"):
            run(finished[0], **other)


@pytest.mark.parametrize(
    ("stopping", "is_another"), [({}, False), ({"EARLY_STOPPING": {"PATIENCE": 9}}, True)]
)
def test_validation_data_identify_a_run_that_they_may_stop(tmp_path, stopping, is_another):
    fingerprints = set()
    for count in (4, 6):
        folder = tmp_path / str(count)
        run(folder, validation={"count": count}, MAX_STEPS=1, **stopping)
        fingerprints.add(json.loads((folder / "run.json").read_text())["fingerprint"])
    assert len(fingerprints) == 1 + is_another


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": {"DATA": {"NUM_VOXEL_BINS": 4}}}, "unknown section DATA"),
        ({"dataset_parameters": {"count": torch.ones(1)}}, "JSON values"),
        ({"dataset_parameters": {"noise": float("inf")}}, "JSON values"),
        ({"identity": {"digest": b"a"}}, "JSON values"),
        ({"model_class": lambda: Forecaster(8)}, "named class or function"),
        ({"dataset_class": partial(Waves, 4)}, "named class or function"),
        ({"settings": {"TRAIN": {"EARLY_STOPPING": {}}}}, "give validation_parameters"),
        ({"settings": {"TRAIN": {"DISTILL": {}}}}, r"unknown key TRAIN\.DISTILL"),
        ({"settings": {"TRAIN": {"AMP_OPT_LEVEL": "O7"}}}, "is 'O7', expected one of O0, O1, O2"),
        # There is no MODEL, so that no weights could be kept.
        ({"settings": {"TRAIN": {"MAX_STEPS": 0}}}, r"MAX_STEPS is 0, .* MODEL\.PRETRAINED"),
    ],
)
def test_unknown_settings_and_settings_without_effect_are_refused(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        fit(tmp_path, ForecastObjective(), **CLASSES | options)


def test_full_memory_leaves_a_snapshot_and_advice(tmp_path):
    with pytest.raises(RunError, match=r"(?s)20 GiB.*out_of_memory\.json.*TRAIN\.BATCH_SIZE"):
        # In the third step.
        run(tmp_path, Disturbed(5, torch.OutOfMemoryError("tried to allocate 20 GiB")), identity={})
    snapshot = json.loads((tmp_path / "logs" / "out_of_memory.json").read_text())
    assert snapshot["process_mb"] > 0
    assert snapshot["categories"]["parameters_mb"] == pytest.approx(0.0, abs=0.1)
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "failed"
    # Step 3 was to be profiled: what there is of it is written, and the profiler has ended.
    assert "convolution" in (tmp_path / "logs" / "profile_2-3.txt").read_text()
    assert not torch.autograd._profiler_enabled()


def test_a_model_that_does_not_compile_is_reported_with_the_key(tmp_path):
    error = InductorError(AssertionError("sizes"), None)
    with pytest.raises(RunError, match=r"AssertionError: sizes\); set TRAIN\.COMPILE_MODEL: false"):
        run(tmp_path, Disturbed(1, error), identity={})


def test_the_example_of_the_guide_learns(tmp_path, repository):
    text = (repository / "docs" / "fit.md").read_text()
    (source,) = re.findall(r"```python\n# fit_example.py\n(.*?)```", text, re.DOTALL)
    (tmp_path / "fit_example.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "fit_example.py"],
        cwd=tmp_path,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    assert re.search(r"epoch 8: 0:\d\d, 64 samples, [\d.e+]+ samples/s", shown)
    skill = float(re.search(r"finished after 64 steps, skill ([\d.]+)", shown).group(1))
    assert skill > 0.8
