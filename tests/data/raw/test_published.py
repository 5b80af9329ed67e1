"""Each published layout, read through to a trained step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.data.prepared import check, merged
from tests.data.raw.published import CONTEXT, PUBLISHED, frames
from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.data_source import RawFolder
from vrtspike.data.exposure import Exposure
from vrtspike.data.manifests import recorded_exposure
from vrtspike.data.raw.survey import survey
from vrtspike.data.store.reading import Store
from vrtspike.data.store.writing import build_store
from vrtspike.data.voxels.counting import voxelize
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import read_json, write_json
from vrtspike.models import build_model
from vrtspike.system.errors import DataError

BINS = 8


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_layout_is_read_through_to_a_trained_step(name, tmp_path):
    published = PUBLISHED[name]
    root = tmp_path / "raw"
    published.write(root)
    spike_root = str(root / published.spike_root) if published.spike_root else None
    layout = published.options.get("layout", "auto")
    report = survey(RawFolder(root, layout=layout, spike_root=spike_root), ["train", "test"])
    assert (report["layout"], report["spikes"], report["excluded"]) == (published.layout, True, {})
    for sequence in report["sequences"]:
        split = sequence["split"]
        name = f"{split}/{sequence['name']}"
        manifest = check(root, name, spike_root=spike_root, **published.options)
        assert (manifest["faults"], tuple(manifest["spike_size"])) == ([], published.spike_size)
        second = manifest["frames"][1]["spikes"]
        assert recorded_exposure(second) == published.exposure
        ingested = tmp_path / f"{split}.json"
        store = tmp_path / "k" / split / f"{sequence['name']}.json"
        write_json(ingested, manifest)
        build_store(root, ingested, StoreOptions(bins=BINS, context=5), store)
        # Blurry frames and the spikes of the open shutter alone are the same light.
        assert read_json(store)["gain"] == pytest.approx(2, abs=0.05)
    path = tmp_path / "k" / "dataset.json"
    names = [f"{sequence['split']}/{sequence['name']}" for sequence in report["sequences"]]
    write_json(path, merged(path.parent, names))
    settings = DeblurringSettings.model_validate(
        {
            "DATA": {"CROP_SIZE": 40, "CLIP_LEN": 2, "NUM_VOXEL_BINS": BINS, "CONTEXT_STEPS": 5},
            "MODEL": {"TYPE": "spike_nafnet", "NAF": {"WIDTH": 8, "SPIKE_WIDTH": 8}},
        }
    )
    dataset = load_dataset(path)
    batch = ClipDataset(dataset, "train", settings.DATA).read_batch([0])
    steps = batch.spikes.bin_steps.sum(dim=2)[0].tolist()
    # The first of two frames begins where the recording does, unless that began before.
    assert all(published.exposure.steps <= n <= published.exposure.steps + 10 for n in steps)
    model = build_model(settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    clip = prepare_batch(batch, dataset.statistics, torch.device("cpu"))
    loss = (model(clip.blur, clip.voxels) - clip.sharp).square().mean()
    loss.backward()
    assert model.readout.weight.grad.any(), "the spikes say something of the sharp frame"
    optimizer.step()
    with torch.no_grad():
        assert (model(clip.blur, clip.voxels) - clip.sharp).square().mean() < loss


def test_a_recording_in_npz_is_a_stream_and_an_area_of_it_is_not_guessed(tmp_path):
    PUBLISHED["uhsr"].write(tmp_path)
    assert survey(RawFolder(tmp_path), ["train", "test"])["layout"] == "stream"
    (fault,) = check(tmp_path, "train/a")["faults"]
    assert "250 x 250 does not fit frames of 448 x 448" in fault
    assert "the layout (DATA.LAYOUT)" in fault


@pytest.mark.parametrize(
    ("name", "sequence", "fault"),
    [
        ("spk_gopro", "a", "000047.dat: found 55 steps, expected a multiple of 8"),
        ("x4k 33", "002__occ008.320", "0004.dat: found 32 steps, expected 33"),
        ("s-sdm", "a", "000019.dat: found 136 steps, expected 137"),
    ],
)
def test_spikes_of_another_length_than_the_layout_says_are_refused(tmp_path, name, sequence, fault):
    PUBLISHED[name].write(tmp_path)
    rows, columns = PUBLISHED[name].spike_size
    for path in tmp_path.rglob(fault.partition(":")[0]):
        path.write_bytes(path.read_bytes()[: -rows * columns // 8])
    assert any(fault in message for message in check(tmp_path, f"train/{sequence}")["faults"])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("0000,20,76,50.5", "no line for frame 0001; add it"),
        ("0000,20,76,48\n0001,20,76,48", "the same exposure for the frames 0000 and 0001"),
        ("0001,20,9999,50.5", "frame 0001: found stop 9999, expected at most 192"),
        ("0007,20,76,50.5", "found 1 lines without a frame, the first of 0007; correct the"),
        ("0001,20,9,50.5", "exposures.csv: lines that are no exposure"),
        ("0001,60,116,90.5", "found start 60 of frame 0001, before stop 76 of frame 0000"),
    ],
)
def test_a_table_that_does_not_describe_the_recording_is_refused(tmp_path, line, fault):
    PUBLISHED["one stream"].write(tmp_path)
    table = tmp_path / "train/a/exposures.csv"
    first = table.read_text().splitlines()[:2]
    table.write_text("\n".join([*first[: 1 if line.startswith("0000") else 2], line, ""]))
    assert sum(fault in message for message in check(tmp_path, "train/a")["faults"]) == 1


def test_a_table_may_lack_the_zeros_that_spreadsheets_drop(tmp_path):
    PUBLISHED["one stream"].write(tmp_path)
    table = tmp_path / "train/a/exposures.csv"
    expected = check(tmp_path, "train/a")
    table.write_text(table.read_text().replace("\n000", "\n"))
    assert "\n0," in table.read_text()
    manifest = check(tmp_path, "train/a")
    assert (manifest["faults"], manifest["frames"]) == ([], expected["frames"])
    table.write_text(table.read_text() + "0007,0,8,4\n")
    (fault,) = check(tmp_path, "train/a")["faults"]
    assert "1 lines without a frame, the first of 0007; correct the names (frames are" in fault


def test_a_stream_of_another_sensor_is_refused_once(tmp_path):
    PUBLISHED["one stream"].write(tmp_path)
    (tmp_path / "train/a/spike.dat").write_bytes(bytes(1000 * 1024 // 8))
    (fault,) = check(tmp_path, "train/a")["faults"]
    assert "128000 bytes are not a whole number of 48 x 64" in fault


def test_a_layout_with_one_kind_of_blurry_frames_refuses_the_other(tmp_path):
    PUBLISHED["s-sdm"].write(tmp_path)
    manifest = check(tmp_path, "train/a", "blur_gamma", layout="s_sdm")
    assert (
        "layout s_sdm has one kind of blurry frames, found DATA.BLUR_DIR" in manifest["faults"][0]
    )


def test_a_set_without_sharp_frames_is_refused_for_training(tmp_path):
    for part in ("blur_data", "spike_data"):
        (tmp_path / part / "a").mkdir(parents=True)
    with pytest.raises(DataError, match=r"rsb has no sharp frames, so nothing can be trained on"):
        survey(RawFolder(tmp_path), ["train", "test"])
    (tmp_path / "sharp_data").mkdir()  # the folder of a split of S-SDM's GOPRO
    with pytest.raises(DataError, match=r"no sequence folders; expected"):
        survey(RawFolder(tmp_path), ["train", "test"])


def test_the_context_counts_in_the_bins_and_not_in_the_gain(tmp_path):
    PUBLISHED["one stream"].write(tmp_path)
    manifest = check(tmp_path, "train/a")
    write_json(tmp_path / "a.json", manifest)
    (frame, _) = frames("train", 56, 30)
    gains = set()
    for context, margin in ((0, 0), (7, 7), (99, CONTEXT)):
        options = StoreOptions(bins=BINS, context=context)
        made = build_store(tmp_path, tmp_path / "a.json", options, tmp_path / f"{context}.json")
        store = Store(tmp_path / f"{context}.zarr")
        counts = store.read("voxels", slice(0, 1), slice(None), slice(None))[0]
        # After the first recording there follows the second one, as far as the context goes.
        steps = frame.spikes[CONTEXT - margin : CONTEXT + 56 + min(context, margin)]
        if context < CONTEXT:
            expected = voxelize(steps, BINS, sharp=margin + 30.5)
            np.testing.assert_array_equal(counts, expected)
        else:
            assert store.metadata.spike_frames[0] == CONTEXT + 56 + 99
        assert store.metadata.exposures[0] == Exposure(margin, margin + 56, margin + 30.5)
        assert StoreOptions.from_manifest(made) == options
        gains.add(made["gain"])
    assert len(gains) == 1
