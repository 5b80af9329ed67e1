"""Weights that a deblurring reads, and data, teachers and protocols that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.runs.data_sets import write_dataset, write_teacher
from vrtspike.config import load_preset
from vrtspike.deblurring.task import evaluation_weights, training_weights
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.runs.identity import identify
from vrtspike.runs.published import publish
from vrtspike.system.errors import ConfigError


def test_every_key_that_names_weights_is_among_those_of_a_training():
    every = DeblurringSettings.model_validate(
        {
            "MODEL": {"VRT": {"PRETRAINED": "p.pth", "SPYNET": "s.pth"}},
            "TRAIN": {"DISTILL": {"TEACHER": "t"}},
        }
    )
    # It and those of VRT exclude each other in what is read from a file.
    started = every.MODEL.model_copy(update={"PRETRAINED": "results/train/p"})
    every = every.model_copy(update={"MODEL": started})

    def named(section: BaseModel, prefix: str) -> set[str]:
        result = set()
        for name, schema in type(section).model_fields.items():
            value = getattr(section, name)
            if schema.json_schema_extra == {"weights": True}:
                result.add(prefix + name)
            elif isinstance(value, BaseModel):
                result |= named(value, f"{prefix}{name}.")
        return result

    files = training_weights(every)
    assert named(every, "") == set(files)
    assert files["TRAIN.DISTILL.TEACHER"] == Path("t/weights.safetensors")
    light = every.MODEL.model_copy(update={"TYPE": "spike_nafnet"})
    files = training_weights(every.model_copy(update={"MODEL": light}))
    assert [*files] == ["MODEL.PRETRAINED", "TRAIN.DISTILL.TEACHER"]
    assert files["MODEL.PRETRAINED"] == Path("results/train/p/weights.safetensors")


@pytest.mark.parametrize(
    ("sections", "training", "evaluation"),
    [
        ({"TEST": {"METRICS": ["psnr", "ssim"]}}, [], []),
        ({"LOSS": {"VGG_PERCEPTUAL": {"WEIGHT": 0.1}}}, ["vgg16-397923af.pth"], None),
        ({"LOSS": {"VGG_PERCEPTUAL": {"WEIGHT": 0.1, "WEIGHTS": "random"}}}, [], None),
        ({"LOSS": {"LPIPS": {"WEIGHT": 0.1}}}, ["alexnet-owt-7be5be79.pth"], None),
        ({"LOSS": {"LPIPS": {"WEIGHT": 0.1, "NET": "vgg"}}}, ["vgg16-397923af.pth"], None),
        ({"TEST": {"METRICS": ["lpips"]}}, [], ["alexnet-owt-7be5be79.pth"]),
    ],
)
def test_losses_and_metrics_need_the_weights_of_their_backbones(sections, training, evaluation):
    settings = DeblurringSettings.model_validate({**sections, "WEIGHTS": {"DIR": "w"}})
    assert list(training_weights(settings).values()) == [Path("w") / name for name in training]
    if evaluation is not None:
        files = evaluation_weights(settings)
        expected = [("TEST.METRICS: lpips", Path("w") / name) for name in evaluation]
        assert list(files.items()) == expected


def test_a_model_with_spikes_is_refused_on_a_data_set_without(tmp_path):
    dataset = write_dataset(tmp_path / "dataset.json", None)
    with pytest.raises(ConfigError, match=r"USE_SPIKE to false.*high_frame_rate") as caught:
        identify("x", DeblurringSettings(), dataset)
    assert str(dataset) in str(caught.value)
    plain = DeblurringSettings.model_validate({"MODEL": {"USE_SPIKE": False}})
    assert identify("x", plain, dataset).dataset == str(dataset)
    teacher = write_teacher(tmp_path / "teacher", plain, b"")
    student = DeblurringSettings.model_validate(
        {"MODEL": {"USE_SPIKE": False}, "TRAIN": {"DISTILL": {"TEACHER": str(teacher)}}}
    )
    identify("x", student, dataset)
    write_teacher(teacher, DeblurringSettings(), b"")
    with pytest.raises(ConfigError, match=r"with TRAIN\.DISTILL\.TEACHER .*teacher: no sequence"):
        identify("x", student, dataset)


def test_a_protocol_of_other_blurry_frames_is_refused_before_a_training_begins(tmp_path):
    dataset = write_dataset(tmp_path / "dataset.json", None)
    plain = {"MODEL": {"USE_SPIKE": False}, "TEST": {"PROTOCOL": ["own", "ssdm"]}}
    identify("x", DeblurringSettings.model_validate(plain), dataset)
    plain["TEST"] = {"PROTOCOL": ["own", "spkdeblurnet"]}
    with pytest.raises(ConfigError, match=r"spkdeblurnet, whose .*'blur_gamma'; .*DATA\.BLUR_DIR"):
        identify("x", DeblurringSettings.model_validate(plain), dataset)


def test_a_teacher_of_other_voxels_is_refused(deblurring_project, run_folder, tmp_path):
    publish(run_folder, tmp_path / "teacher")
    values = {
        "NUM_VOXEL_BINS=8": r"DATA\.NUM_VOXEL_BINS is 4 there, 8 here\.",
        "CONTEXT_STEPS=8": r"DATA\.CONTEXT_STEPS is 0 there, 8 here\.",
        "NORM={MEAN: 2, STD: 3}": r"NORM\.MEAN is \S+ there, 2 here; .*STD is \S+ there, 3 here",
    }
    for key, difference in values.items():
        overrides = [f"DATA.{key}", f"TRAIN.DISTILL.TEACHER={tmp_path / 'teacher'}"]
        settings = load_preset(deblurring_project / "presets" / "tiny.yaml", overrides)
        with pytest.raises(ConfigError, match=rf"TEACHER \S+teacher: \S*{difference}"):
            identify("tiny", settings, deblurring_project / "k4" / "dataset.json")
