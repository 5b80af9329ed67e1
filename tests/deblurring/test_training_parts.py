"""Model, objective and batches of a preset."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

from tests.deblurring.tiny_run import ALONE, CPU, NO_WORKERS
from vrtspike.config import load_preset
from vrtspike.data.clips.dataset_manifest import DatasetManifest, load_dataset
from vrtspike.data.clips.samples import Sample
from vrtspike.data.store.reading import Store
from vrtspike.deblurring.training_parts import (
    build_objective,
    build_training_model,
    build_training_parts,
    load_teacher,
    training_batches,
    validation_batches,
)
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import read_json, write_json
from vrtspike.losses.charbonnier import charbonnier
from vrtspike.models import build_model
from vrtspike.models.vrt_spike import VRTSpike
from vrtspike.runs.identity import identify
from vrtspike.runs.published import publish
from vrtspike.system.errors import ConfigError, RunError


def test_parts_of_a_model_learn_as_the_preset_says(deblurring_project):
    factors = "{NEW: 2, BACKBONE: 0.5, FLOW: 0.25}"
    overrides = [f"TRAIN.OPTIM.LR_FACTORS={factors}", "TRAIN.FREEZE_FLOW_STEPS=7"]
    for options, rates, frozen in (
        (overrides, {"others": 2.0, "backbone": 0.5, "flow": 0.125}, {"flow": 7}),
        ([], {"others": 1.0, "backbone": 1.0, "flow": 0.125}, {"flow": 0}),
    ):
        settings = load_preset(deblurring_project / "presets" / "tiny.yaml", options)
        run = identify("tiny", settings, deblurring_project / "k4" / "dataset.json")
        parts = build_training_parts(run, ALONE, NO_WORKERS)
        assert (parts.lr_factors, parts.frozen_steps) == (rates, frozen)


def test_a_model_may_leave_out_groups_of_parameters(deblurring_project, monkeypatch):
    monkeypatch.setattr(VRTSpike, "lr_groups", lambda model: {"backbone": []})
    settings = load_preset(deblurring_project / "presets" / "tiny.yaml", ["DATA.CLIP_LEN=1"])
    run = identify("tiny", settings, deblurring_project / "k4" / "dataset.json")
    parts = build_training_parts(run, ALONE, NO_WORKERS)
    assert (parts.lr_factors, parts.frozen_steps) == (
        {"others": 1.0, "backbone": 1.0},
        {},
    )


def test_clips_of_one_frame_train_every_parameter_that_is_not_fixed(deblurring_project):
    """Flow and alignment have nothing to do; several processes would wait for their gradients."""
    settings = load_preset(deblurring_project / "presets" / "tiny.yaml", ["DATA.CLIP_LEN=1"])
    model = build_training_model(settings)
    model(torch.rand(1, 1, 3, 32, 32), torch.rand(1, 1, 4, 32, 32)).sum().backward()
    trained = {name for name, p in model.named_parameters() if p.grad is not None}
    assert trained == {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained.isdisjoint(model.lr_groups()["flow"])


def batch_settings(**sections: dict) -> DeblurringSettings:
    """Of small batches, the crops of which are not turned."""
    data = {
        "CROP_SIZE": 32,
        "CLIP_LEN": 2,
        "NUM_VOXEL_BINS": 4,
        "AUGMENT": False,
        "THRESHOLD_AUGMENT": 0.0,
        "FAULT_AUGMENT": 0.0,
        "VALIDATION": "test",
    }
    return DeblurringSettings.model_validate({**sections, "DATA": data | sections.get("DATA", {})})


def origins(batch: Sample, dataset: DatasetManifest) -> list[tuple[str, int]]:
    """Sequence and first frame of each clip of a batch, by its spikes."""
    assert batch.spikes is not None
    whole = slice(None)
    result = []
    for clip in batch.spikes.counts:
        for entry in dataset.sequences:
            counts = torch.from_numpy(Store(entry.store).read("voxels", whole, whole, whole))
            for start in range(len(counts) - len(clip) + 1):
                if is_in(clip, counts[start : start + len(clip)]):
                    result.append((f"{entry.split}/{entry.name}", start))
    assert len(result) == len(batch.blur)
    return result


def is_in(crop: torch.Tensor, counts: torch.Tensor) -> bool:
    """Return whether counts, or a part of them, are those of a crop; (T, K, h, w) both."""
    height, width = crop.shape[2:]
    windows = counts.unfold(2, height, 1).unfold(3, width, 1)  # (T, K, rows, columns, h, w)
    return bool((windows == crop[:, :, None, None]).all(dim=(0, 1, 4, 5)).any())


def clips_of(
    deblurring_project: Path, settings: DeblurringSettings, count: int
) -> list[list[tuple[str, int]]]:
    """Sequence and first frame of the clips in the first batches of a run."""
    dataset = load_dataset(deblurring_project / "k4" / "dataset.json")
    batches = training_batches(settings, dataset, NO_WORKERS, ALONE)
    stream = islice(batches.stream(0, 1, count), count)
    return [origins(batch, dataset) for batch in stream]


def test_batches_of_clips_are_cut_as_the_preset_says(deblurring_project):
    settings = batch_settings(TRAIN={"BATCH_SIZE": 3}, DATALOADER={"DROP_LAST": False})
    first, second = clips_of(deblurring_project, settings, 2)
    assert (len(first), len(second)) == (3, 1)
    clips = [(f"train/{name}", start) for name in ("one", "two") for start in (0, 1)]
    assert sorted(first + second) == clips
    # Without the incomplete batch every batch is a new epoch's first.
    dropping = batch_settings(TRAIN={"BATCH_SIZE": 3})
    assert [len(batch) for batch in clips_of(deblurring_project, dropping, 3)] == [3, 3, 3]
    blocks = batch_settings(TRAIN={"BATCH_SIZE": 2}, DATALOADER={"SHUFFLE_BLOCK": 2}, SEED=3)
    for batch in clips_of(deblurring_project, blocks, 12):
        assert len({sequence for sequence, _ in batch}) == 1


def test_validation_sees_the_test_split_in_batches_of_its_own(deblurring_project):
    dataset = load_dataset(deblurring_project / "k4" / "dataset.json")
    settings = batch_settings(TRAIN={"VAL_BATCH_SIZE": 2})
    (batch,) = validation_batches(settings, dataset, NO_WORKERS, ALONE)
    assert origins(batch, dataset) == [("test/three", 0), ("test/three", 1)]


def test_validation_sees_training_sequences_that_training_does_not(deblurring_project):
    """Of one and two, the name with the smaller digest is held out; the test split is unseen."""
    manifest = read_json(deblurring_project / "k4" / "dataset.json")
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one", "two")}
    (out,) = manifest["held_out"]
    assert out == min(digests, key=digests.__getitem__)
    dataset = load_dataset(deblurring_project / "k4" / "dataset.json")
    settings = batch_settings(DATA={"VALIDATION": "held_out"})
    split = dataset.with_validation_split(settings.DATA)
    names = {
        name
        for batch in training_batches(settings, dataset, NO_WORKERS, ALONE).stream(0, 1, 4)
        for name, _ in origins(batch, split)
    }
    validated = {
        name
        for batch in validation_batches(settings, dataset, NO_WORKERS, ALONE)
        for name, _ in origins(batch, split)
    }
    assert names == {f"train/{name}" for name in digests if name != out}
    assert validated == {f"train, held out/{out}"}
    single = replace(dataset, held_out=())
    with pytest.raises(ConfigError, match=r"a single training sequence .* DATA.VALIDATION to test"):
        training_batches(settings, single, NO_WORKERS, ALONE)


def test_teacher_guides_the_student(deblurring_project, run_folder, tmp_path):
    teacher = tmp_path / "teacher"
    publish(run_folder, teacher)
    preset = deblurring_project / "presets" / "tiny.yaml"
    settings = load_preset(preset, [f"TRAIN.DISTILL.TEACHER={teacher}", "TRAIN.DISTILL.WEIGHT=0.5"])
    dataset = load_dataset(deblurring_project / "k4" / "dataset.json")
    objective = build_objective(settings, dataset, CPU)
    batches = training_batches(settings, dataset, NO_WORKERS, ALONE)
    batch = objective.add_targets(objective.prepare(next(batches.stream(0, 1, 1)), CPU))
    # Without its random paths, so that it says the same twice.
    student = build_model(settings).eval()
    losses = objective.losses(objective.forward(student, batch), batch, step=0)
    assert losses.keys() == {"charbonnier", "distillation"}
    expected = load_teacher(teacher, CPU)(batch.blur, batch.voxels)
    distance = charbonnier(student(batch.blur, batch.voxels), expected)
    torch.testing.assert_close(losses["distillation"], 0.5 * distance)
    assert not batch.teacher_output.requires_grad
    assert not any(p.requires_grad for p in load_teacher(teacher, CPU).parameters())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("other settings", r"fusion\.0\.key_value\.bias: shape \(8,\), expected \(16,\)"),
        ("no settings", r"settings\.json: no such file"),
        ("no weights", r"weights\.safetensors: no such checkpoint"),
    ],
)
def test_a_missing_or_damaged_teacher_is_named(run_folder, tmp_path, damage, message):
    teacher = tmp_path / "teacher"
    publish(run_folder, teacher)
    kept = teacher / "settings.json"
    if damage == "other settings":
        chosen = json.loads(kept.read_text())
        chosen["settings"]["MODEL"]["VRT"]["EMBED_DIMS"] = [8] * 11
        write_json(kept, chosen)
    else:
        (kept if damage == "no settings" else teacher / "weights.safetensors").unlink()
    with pytest.raises(RunError, match=message) as caught:
        load_teacher(teacher, CPU)
    assert str(caught.value).startswith(f"TRAIN.DISTILL.TEACHER {teacher}: the teacher is missing")
