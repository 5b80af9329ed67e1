"""Restoration in tiles and temporal windows, inputs of the model, changed weights."""

from __future__ import annotations

import re
from copy import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from vrtspike.config import load_preset
from vrtspike.config.loading import derive_variant
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.store.metadata import StoreMetadata
from vrtspike.data.store.reading import Store
from vrtspike.data.store.writing import write_store
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.schema import ABLATION
from vrtspike.io.files import file_digest, write_json
from vrtspike.models import build_model
from vrtspike.models.restorer import repeat_pixels
from vrtspike.restoration.inference.tiling import Tiling, tiling_for
from vrtspike.restoration.inputs.clip_source import StoreClipSource
from vrtspike.restoration.tiled_inference import load_model, restore_frames, torch_tile_model
from vrtspike.system.errors import ConfigError, RunError

CPU = torch.device("cpu")


class Local(nn.Module):
    """A model that looks two pixels and one frame far, with the call of the real one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix = nn.Conv3d(3 + 4, 3, (3, 5, 5), padding=(1, 2, 2))

    def forward(self, blur: torch.Tensor, voxels: torch.Tensor) -> torch.Tensor:
        inputs = torch.cat([blur, repeat_pixels(voxels, *blur.shape[-2:])], dim=2).transpose(1, 2)
        return blur + 0.1 * torch.tanh(self.mix(inputs).transpose(1, 2))


@pytest.fixture(scope="module")
def clip(small_run):
    dataset = load_dataset(small_run.dataset)
    return StoreClipSource(Store(dataset.split("test")[0].store)), dataset.statistics


def restored(model, source, statistics, tiling, **options):
    return list(restore_frames(torch_tile_model(model, statistics, CPU), source, tiling, **options))


def test_tiles_give_what_the_whole_frame_gives(clip):
    source, statistics = clip
    model = Local().eval()
    whole, tiled = (
        np.stack(restored(model, source, statistics, tiling))
        for tiling in (Tiling(0, 0, 0, 0), Tiling(32, 8, 0, 0))
    )
    assert whole.shape == (5, 48, 64, 3)
    assert np.abs(whole.astype(int) - tiled).max() <= 1  # rounding of the last bit
    blur = source.read(slice(0, 5)).blur.numpy()
    assert np.abs(whole.astype(int) - blur).max() > 5


def test_no_wanted_frame_gives_none(clip):
    source, statistics = clip
    assert restored(Local(), source, statistics, Tiling(0, 0, 0, 0), wanted=[]) == []


def test_tiles_must_fall_on_whole_spike_pixels(clip):
    source, statistics = clip
    source = copy(source)
    source.ratio = Fraction(4)
    for size, overlap in ((32, 6), (-8, 0), (32, 20)):
        with pytest.raises(ConfigError, match=r"multiples of 4 .* half of SIZE"):
            restored(Local(), source, statistics, Tiling(size, overlap, 0, 0))


@pytest.mark.parametrize(
    ("tiling", "tiles_at_once", "remedies"),
    [
        (Tiling(32, 8, 3, 1), 2, ["TEST.BATCH_SIZE", "TEST.TILE.SIZE", "TEST.TILE.FRAMES"]),
        (Tiling(0, 0, 3, 1), 1, ["TEST.TILE.SIZE", "TEST.TILE.FRAMES"]),
        (Tiling(8, 0, 1, 0), 1, []),
    ],
    ids=["batch", "frame", "smallest tile"],
)
def test_full_memory_names_what_can_still_be_lowered(clip, tiling, tiles_at_once, remedies):
    def compute(batch):
        raise torch.OutOfMemoryError("no byte left")

    with pytest.raises(RunError, match=r"end other programs.*\(no byte left\)$") as error:
        list(restore_frames(compute, clip[0], tiling, tiles_at_once=tiles_at_once))
    assert re.findall(r"TEST[\w.]+", str(error.value)) == remedies


def test_a_model_without_spikes_gets_none(clip):
    def blurry(blur: torch.Tensor, voxels: torch.Tensor | None) -> torch.Tensor:
        assert voxels is None
        return blur

    source, _ = clip
    result = restored(blurry, source, None, Tiling(32, 8, 0, 0))
    np.testing.assert_array_equal(result, source.read(slice(0, 5)).blur.numpy())


def test_the_model_gets_normalised_voxels(clip):
    inputs = []

    def record(blur: torch.Tensor, voxels: torch.Tensor) -> torch.Tensor:
        inputs.append(voxels)
        return blur

    source, statistics = clip
    restored(record, source, statistics, Tiling(0, 0, 0, 0))
    window = source.read(slice(0, 5))
    rate = window.spikes.counts.numpy() / window.spikes.bin_steps.numpy()[..., None, None]
    expected = (source.gain() * rate - statistics.mean) / statistics.std
    np.testing.assert_allclose(inputs[0][0], expected, rtol=1e-4, atol=1e-5)


def tiling_of(clip_len: int, **tile: int) -> Tiling:
    settings = {"DATA": {"CLIP_LEN": clip_len}, "TEST": {"TILE": tile}}
    return tiling_for(DeblurringSettings.model_validate(settings))


def test_temporal_windows_share_a_sixth_and_at_least_a_frame():
    assert tiling_of(6, SIZE=64, OVERLAP=8) == Tiling(64, 8, 6, 1)
    assert tiling_of(6, SIZE=64, OVERLAP=8, FRAMES=12) == Tiling(64, 8, 12, 2)
    assert [tiling_of(frames).frames_overlap for frames in (1, 2, 3)] == [0, 1, 1]


def test_weights_that_were_changed_after_they_were_published_are_refused(small_run, tmp_path):
    weights = tmp_path / "weights.safetensors"
    contents = bytearray((small_run.train / "weights.safetensors").read_bytes())
    contents[-1] ^= 1  # in the last number: the file is still whole
    weights.write_bytes(contents)
    load_model(weights, small_run.settings, CPU)
    kept = {weights.name: file_digest(small_run.train / "weights.safetensors")}
    write_json(tmp_path / "run.json", {"status": "finished", "digests": kept})
    with pytest.raises(RunError, match=r"weights\.safetensors: was changed after it was published"):
        load_model(weights, small_run.settings, CPU)


def test_a_store_without_spikes_gives_frames_only(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (3, 2, 15, 21, 3), dtype=np.uint8)
    metadata = StoreMetadata(("1", "2", "3"), (), (15, 21), None, 4)
    write_store(
        tmp_path / "s.zarr", metadata, [{"blur": blur, "sharp": sharp} for blur, sharp in frames]
    )
    source = StoreClipSource(Store(tmp_path / "s.zarr"))
    window = source.read(slice(1, 3))
    np.testing.assert_array_equal(window.blur.numpy(), frames[1:, 0])
    assert (window.spikes, source.gain(), source.ratio) == (None, None, 1)


LIGHT = DeblurringSettings.model_validate(
    {
        "DATA": {"NUM_VOXEL_BINS": 4, "CLIP_LEN": 1, "NEIGHBOURS": True},
        "MODEL": {
            "TYPE": "spike_nafnet",
            "NAF": {
                "WIDTH": 8,
                "ENCODER_BLOCKS": [1],
                "MIDDLE_BLOCKS": 1,
                "DECODER_BLOCKS": [1],
                "SPIKE_WIDTH": 4,
                "NEIGHBOUR_BINS": 2,
            },
        },
        "TEST": {"TILE": {"SIZE": 0, "FRAMES": 2}},
    }
)
"""A model that reads the last two bins of the frame before and the first two of the one after."""


def light_model() -> nn.Module:
    """A light model with random weights, also of layers that start at zero."""
    torch.manual_seed(3)
    model = build_model(LIGHT).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return model


def changed(settings: DeblurringSettings, **keys: dict[str, object]) -> DeblurringSettings:
    contents = settings.model_dump(exclude_unset=True)
    for section, values in keys.items():
        contents[section] |= values
    return DeblurringSettings.model_validate(contents)


def test_a_window_has_the_spikes_of_the_frames_beside_it(clip):
    """A light model restores single frames: windows change nothing if none lacks a neighbour."""
    source, statistics = clip
    model = light_model()

    def values(tiling: Tiling) -> np.ndarray:
        return np.stack(restored(model, source, statistics, tiling, bits=None))

    whole = values(Tiling(0, 0, 0, 0))
    tiling = tiling_for(LIGHT)
    assert tiling == Tiling(0, 32, 2, 0, neighbors=True)
    for frames in (1, 2, 3):
        windows = values(replace(tiling, frames=frames))
        np.testing.assert_allclose(windows, whole, rtol=1e-4, atol=1e-4)
    # The spikes of neighbours count: without them frames are others.
    alone = values(replace(tiling, neighbors=False))
    assert np.abs(alone - whole).max() > 1e-2


def test_windows_of_neighbours_hold_their_spikes(clip):
    source, _ = clip
    whole = source.read(slice(0, 5)).spikes
    inner = source.read(slice(1, 3), neighbors=True).spikes
    np.testing.assert_array_equal(inner.counts, whole.counts[:4])
    np.testing.assert_array_equal(inner.bin_steps, whole.bin_steps[:4])
    assert inner.has_neighbors.tolist() == [True, True]
    first = source.read(slice(0, 2), neighbors=True).spikes
    np.testing.assert_array_equal(first.counts[1:], whole.counts[:3])
    assert first.has_neighbors.tolist() == [False, True]
    last = source.read(slice(4, 5), neighbors=True).spikes
    np.testing.assert_array_equal(last.counts[:-1], whole.counts[3:])
    assert last.has_neighbors.tolist() == [True, False]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, True),
        ({"DATA": {"NEIGHBOURS": False, "CLIP_LEN": 3}}, True),
        # It has seen single frames alone.
        ({"DATA": {"NEIGHBOURS": False}}, False),
        ({"MODEL": {"USE_SPIKE": False}}, False),
        ({"MODEL": {"SPIKE_ORDER": "shuffled"}}, False),
        ({"MODEL": {"TYPE": "vrt_spike"}, "DATA": {"NEIGHBOURS": False, "CLIP_LEN": 3}}, False),
    ],
)
def test_only_models_that_know_neighbours_get_them(keys, expected):
    tiling = tiling_for(changed(LIGHT, **keys))
    assert tiling.neighbors is expected


@pytest.mark.parametrize("preset", ["light", "light_demo", "light_small", "demo"])
def test_the_models_of_an_ablation_have_the_same_windows(repository, preset):
    settings = load_preset(repository / f"config/presets/{preset}.yaml")
    tiling = tiling_for(settings)
    is_light = settings.MODEL.network.takes_neighbors
    assert (tiling.frames_overlap == 0) is is_light
    for variant in ABLATION.variants:
        other = tiling_for(derive_variant(preset, settings, variant))
        assert replace(other, neighbors=tiling.neighbors) == tiling
        assert not other.neighbors
