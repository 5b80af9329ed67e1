"""The weights inside the package: whole, small, and as good as they were when they were trained."""

from __future__ import annotations

import json
import re
import shutil
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from vrtspike.data.clips.batches import model_inputs
from vrtspike.data.clips.samples import BinnedSpikes
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.demo import SCENES, render
from vrtspike.data.simulation.scenes import FRAMES_PER_EXPOSURE
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import file_digest, folder_size
from vrtspike.io.images import read_rgb
from vrtspike.io.weights import floating_type
from vrtspike.models import build_model
from vrtspike.restoration.bundling import MAX_BYTES
from vrtspike.restoration.checks.limit_check import TOLERANCES
from vrtspike.restoration.inputs.clip_source import ClipWindow
from vrtspike.restoration.inputs.input_clip import open_clip
from vrtspike.restoration.loading import load
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.runs import named_models
from vrtspike.runs.named_models import GENERAL, bundled_folder
from vrtspike.system.errors import RunError

FOLDER = bundled_folder(GENERAL)
pytestmark = pytest.mark.skipif(
    not (FOLDER / "weights.safetensors").is_file(),
    reason="the weights general are not in this checkout; make general trains them",
)

SIZE = (128, 192)
"""Rows and columns of a frame of the known scene; the sensor has half of them."""
EXPOSURES = 3
BLURRY = 27.04
"""Mean PSNR in dB of the known scene's blurry frames: simulated, the same everywhere."""
MIN_RESTORED = 35.37
"""Minimum PSNR of the restored frames when the weights were bundled, less 0.1 dB."""
MAX_ERROR_RATIO = 4
"""Largest error of ONNX Runtime over that of PyTorch: both round to float32, in other orders."""


@pytest.fixture(scope="module")
def model() -> TrainedModel:
    return load(device="cpu")


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Path:
    """A test scene of the demo, which no training has seen, decided by its seed."""
    folder: Path = tmp_path_factory.mktemp("scene") / SCENES[-1].name
    frames = render(
        SCENES[-1], np.random.default_rng(5), *SIZE, EXPOSURES * FRAMES_PER_EXPOSURE + 1
    )
    how = SimulatedSensor(SEED=5)
    write_sequence(folder, frames, frames_per_exposure=FRAMES_PER_EXPOSURE, sensor=how)
    return folder


def pictures(folder: Path) -> NDArray[np.uint8]:
    """The frames of a folder, uint8 (T, H, W, 3)."""
    return np.stack([read_rgb(path) for path in sorted(folder.iterdir())])


def psnr(frames: NDArray[np.uint8], sharp: NDArray[np.uint8]) -> float:
    """Mean over the frames, dB."""
    errors = np.square(frames.astype(float) - sharp).mean(axis=(1, 2, 3))
    return float(np.mean(10 * np.log10(255**2 / errors)))


def test_the_pack_is_whole_small_and_in_half_precision(model):
    assert floating_type(FOLDER / "weights.safetensors") == "float16"
    assert folder_size(FOLDER)[1] <= MAX_BYTES
    record = json.loads((FOLDER / "run.json").read_text())
    assert (record["status"], record["weights_precision"]) == ("finished", "float16")
    assert record["digests"] == {
        name: file_digest(FOLDER / name)
        for name in ("evaluation.json", "settings.json", "statistics.json", "weights.safetensors")
    }
    assert (model.run.name, model.limits is None) == (GENERAL, False)
    evaluation = json.loads((FOLDER / "evaluation.json").read_text())
    assert evaluation["fingerprint"] == model.run.fingerprint
    card = (FOLDER / "README.md").read_text()
    digest = re.escape(str(model.run.dataset_digest))
    assert re.search(
        rf"digest `{digest}`.*\n- seed \d+\n- code at commit `[0-9a-f]{{40}}`", card, re.S
    )
    assert model.network is not None
    types = {tensor.dtype for tensor in model.network.parameters()}
    assert types == {torch.float32}


def test_the_page_names_the_recordings_of_the_training(model, repository):
    assert model.limits is not None
    for page, word in (("docs/general.md", "to"), ("docs/zh/general.md", "至")):
        text = (repository / page).read_text(encoding="utf-8")
        for name, (low, high) in model.limits.contents().items():
            trained = f"{low:.3g}" if low == high else f"{low:.3g} {word} {high:.3g}"
            named = [f"{low / TOLERANCES[name]:.3g}", f"{high * TOLERANCES[name]:.3g}"]
            (row,) = re.findall(rf"^\|[^|]*\| {re.escape(trained)} \|([^|]*)\|", text, re.MULTILINE)
            assert re.findall(r"\d[\d.]*", row) == named


@pytest.mark.parametrize("name", ["weights.safetensors", "statistics.json"])
def test_a_flipped_byte_is_refused(name, tmp_path, monkeypatch):
    copy = Path(shutil.copytree(FOLDER, tmp_path / GENERAL))
    contents = bytearray((copy / name).read_bytes())
    contents[-4] ^= 1
    (copy / name).write_bytes(contents)
    monkeypatch.setattr(named_models, "_BUNDLED", tmp_path)
    for use in (lambda: load(device="cpu"), start_from_them):
        with pytest.raises(RunError, match=f"{name}: was changed after it was published"):
            use()


def start_from_them() -> None:
    """Build the network of a preset that begins with these weights."""
    settings = json.loads((FOLDER / "settings.json").read_text())["settings"]
    settings["MODEL"]["PRETRAINED"] = GENERAL
    build_model(DeblurringSettings.model_validate(settings))


def test_a_known_scene_is_restored_as_well_as_when_they_were_trained(model, scene):
    blurry, sharp = pictures(scene / "blur"), pictures(scene / "sharp")
    sensor = [side // 2 for side in SIZE]
    spikes = [read_spikes(path, *sensor) for path in sorted((scene / "spike").iterdir())]
    assert psnr(blurry, sharp) == pytest.approx(BLURRY, abs=0.05)
    assert psnr(model.restore(blurry, spikes), sharp) >= MIN_RESTORED


@pytest.mark.endurance
def test_an_exported_file_is_as_exact_as_pytorch(model, scene, tmp_path):
    """Only other weights can change it; test_onnx_export.py exports a small network each time."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from vrtspike.restoration.onnx_export import export_model

    export_model(model, tmp_path / "general.onnx")
    clip = open_clip(model.run, scene / "blur", scene / "spike")
    window = clip.read(slice(None))
    assert window.spikes is not None
    spikes = BinnedSpikes(*(values[None] for values in window.spikes))
    batch = ClipWindow(window.blur[None], spikes)
    exact = in_double(model, batch)
    errors = [
        float(np.sqrt(np.square(candidate.tile_model(batch) - exact).mean()))
        for candidate in (model, load(tmp_path / "general.onnx"))
    ]
    assert 0 < errors[1] <= MAX_ERROR_RATIO * errors[0]


def in_double(model: TrainedModel, batch: ClipWindow) -> NDArray[np.float64]:
    """The result of the network in double precision for the same inputs."""
    assert model.network is not None
    frames, voxels = model_inputs(batch.blur, batch.spikes, model.statistics, "cpu")
    assert voxels is not None
    network = deepcopy(model.network).double()
    with torch.inference_mode():
        restored: NDArray[np.float64] = network(frames.double(), voxels.double()).numpy()
    return restored
