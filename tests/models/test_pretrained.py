"""MODEL.PRETRAINED: the weights of a trained model, for every model of the registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.models.small_models import SMALL, each_model
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import file_digest, write_json
from vrtspike.models import build_model
from vrtspike.runs.identity import RunIdentity
from vrtspike.sst.settings import SSTSettings
from vrtspike.system.errors import RunError

WIDER = {
    "vrt_spike": {"VRT": {**SMALL["VRT"], "EMBED_DIMS": [16] * 11}},
    "spike_nafnet": {"NAF": {**SMALL["NAF"], "WIDTH": 16}},
}
"""Another size of each model."""
KEY = {"vrt_spike": r"MODEL\.VRT\.EMBED_DIMS", "spike_nafnet": r"MODEL\.NAF\.WIDTH"}


def settings_of(name: str, **model: Any) -> DeblurringSettings:
    values = {**SMALL, "TYPE": name, **model}
    data = {"NUM_VOXEL_BINS": 4, "CLIP_LEN": 3}
    return DeblurringSettings.model_validate({"MODEL": values, "DATA": data})


def write_start(folder: Path, settings: DeblurringSettings) -> dict[str, torch.Tensor]:
    """Write a result folder with random weights, and return them."""
    folder.mkdir()
    model = build_model(settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    save_file(model.state_dict(), folder / "weights.safetensors")
    RunIdentity("start", settings, "dataset.json", "abc", "d").write(folder)
    digests = {"weights.safetensors": file_digest(folder / "weights.safetensors")}
    write_json(folder / "run.json", {"status": "finished", "digests": digests})
    return model.state_dict()


@each_model
@pytest.mark.parametrize("named", ["", "weights.safetensors"])
def test_a_model_starts_with_equal_weights(name, named, tmp_path):
    start = write_start(tmp_path / "start", settings_of(name))
    settings = settings_of(name, PRETRAINED=str(tmp_path / "start" / named))
    model = build_model(settings)
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, start[key]), key
    other = build_model(settings, pretrained=False).state_dict()
    assert not all(torch.equal(other[key], start[key]) for key in start)


def test_a_run_of_another_task_is_refused(tmp_path):
    write_start(tmp_path / "start", settings_of("vrt_spike"))
    RunIdentity("start", SSTSettings(TASK="sst"), "dataset.json", "abc", "d").write(
        tmp_path / "start"
    )
    message = r"^MODEL\.PRETRAINED \S+start: a run of TASK sst, expected one of deblurring"
    with pytest.raises(RunError, match=message):
        build_model(settings_of("vrt_spike", PRETRAINED=str(tmp_path / "start")))


@each_model
def test_weights_of_another_size_are_named_with_both_shapes(name, tmp_path):
    write_start(tmp_path / "start", settings_of(name, **WIDER[name]))
    settings = settings_of(name, PRETRAINED=str(tmp_path / "start"))
    message = r"start: weights of another model"
    with pytest.raises(RunError, match=rf"^MODEL\.PRETRAINED \S+{message}") as caught:
        build_model(settings)
    assert "shape (" in str(caught.value)
    assert "expected (" in str(caught.value)
    with pytest.raises(RunError, match=rf"{KEY[name]} is \S.* there, \S.* here"):
        build_model(settings)


@each_model
def test_keys_of_the_other_network_are_not_named(name, tmp_path):
    (other,) = WIDER.keys() - {name}
    sizes = {**WIDER[name], **WIDER[other]}
    write_start(tmp_path / "start", settings_of(name, **sizes))
    with pytest.raises(RunError) as caught:
        build_model(settings_of(name, PRETRAINED=str(tmp_path / "start")))
    message = re.findall(r"MODEL\.([A-Z_.]+) is", str(caught.value))
    assert message == [KEY[name].replace("MODEL\\.", "").replace("\\", "")]


@each_model
def test_a_tensor_that_is_missing_or_unused_is_named(name, tmp_path):
    start = write_start(tmp_path / "start", settings_of(name))
    path = tmp_path / "start/weights.safetensors"
    first = next(iter(start))
    state = load_file(path)
    state["stray"] = state.pop(first)
    save_file(state, path)
    (tmp_path / "start/run.json").unlink()
    with pytest.raises(RunError) as caught:
        build_model(settings_of(name, PRETRAINED=str(tmp_path / "start")))
    assert f"{first}: missing" in str(caught.value)
    assert "stray: not in this model" in str(caught.value)


@pytest.mark.parametrize("damage", ["changed", "cut"])
def test_damaged_weights_are_refused(damage, tmp_path):
    write_start(tmp_path / "start", settings_of("spike_nafnet"))
    path = tmp_path / "start/weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content if damage == "changed" else content[:-100])
    message = "was changed after it was published" if damage == "changed" else "not a whole safet"
    with pytest.raises(RunError, match=rf"weights\.safetensors: {message}"):
        build_model(settings_of("spike_nafnet", PRETRAINED=str(tmp_path / "start")))


def test_half_precision_is_converted_to_the_type_of_the_model(tmp_path):
    start = write_start(tmp_path / "start", settings_of("spike_nafnet"))
    halved = {key: tensor.half() for key, tensor in start.items()}
    save_file(halved, tmp_path / "start/weights.safetensors")
    (tmp_path / "start/run.json").unlink()
    model = build_model(settings_of("spike_nafnet", PRETRAINED=str(tmp_path / "start")))
    for key, tensor in model.state_dict().items():
        assert tensor.dtype == start[key].dtype
        assert torch.equal(tensor, halved[key].to(tensor.dtype))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"PRETRAINED": "light.onnx"}, "an ONNX file cannot be trained, name the run"),
        ({"PRETRAINED": "a", "VRT": {**SMALL["VRT"], "SPYNET": "s"}}, "set either PRETRAINED or"),
    ],
)
def test_contradictory_starts_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        settings_of("vrt_spike", **model)
