"""Damage of stores: flipped bits, lost files, edited manifests."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.conftest import SEQUENCES
from tests.data.prepared import checked, merged, random_frames, store_metadata
from vrtspike.commands.main import run_command
from vrtspike.data.manifests import DATASET, STORE
from vrtspike.data.stages import VoxelizeStage
from vrtspike.data.store.writing import find_damage, write_store
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import read_json, write_json
from vrtspike.system.errors import DataError

METADATA = store_metadata((16, 12), (96, 256), (48, 128))


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "train" / "s.json"
    first, second = random_frames(METADATA)
    # A frame that is black must be told from one that is lost.
    frames = [{**first, "blur": 0 * first["blur"]}, second]
    digest, _ = write_store(path.with_suffix(".zarr"), METADATA, frames)
    write_json(path, {"schema": STORE.schema, "digest": digest})
    return path


def file_of(manifest, name):
    chunks = (manifest.with_suffix(".zarr") / name / "c").rglob("*")
    return next(path for path in chunks if path.is_file())


def flip(path, place, bit=0x10):
    contents = bytearray(path.read_bytes())
    contents[place] ^= bit
    path.write_bytes(contents)


@pytest.mark.parametrize("name", ["blur", "sharp", "bits", "voxels"])
def test_one_flipped_bit_is_found_and_its_chunk_named(manifest, name):
    flip(file_of(manifest, name), 40)
    (fault,) = find_damage(manifest)
    assert f"s.zarr: {name} of frame 000000, rows 0 to " in fault
    assert f"({name}/c/0/0/0/0)" in fault


@pytest.mark.parametrize(
    ("name", "chunks"),
    [
        # Equal parts of at most 128 pixels, 64 of spikes.
        ("blur", ["rows 0 to 95, columns 0 to 127", "rows 0 to 95, columns 128 to 255"]),
        ("bits", ["rows 0 to 47, columns 0 to 7", "rows 0 to 47, columns 8 to 15"]),
        ("voxels", ["rows 0 to 47, columns 0 to 63", "rows 0 to 47, columns 64 to 127"]),
    ],
)
def test_a_lost_file_is_all_of_its_chunks(manifest, name, chunks):
    path = file_of(manifest, name)
    file = path.relative_to(manifest.with_suffix(".zarr")).as_posix()
    path.unlink()
    store = manifest.with_suffix(".zarr")
    assert find_damage(manifest) == [
        f"{store}: {name} of frame {frame}, {chunk} ({file})"
        for frame in METADATA.frames
        for chunk in chunks
    ]


def test_the_progress_ends_with_the_last_frame(manifest):
    calls = []
    find_damage(manifest, lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]


def test_contents_are_those_of_the_manifest_to_the_gain(manifest):
    attributes = manifest.with_suffix(".zarr") / "zarr.json"
    contents = read_json(attributes)
    contents["attributes"]["gain"] *= 1 + 1e-12
    write_json(attributes, contents)
    (fault,) = find_damage(manifest)
    assert "not those that s.json was written for" in fault
    contents["attributes"]["gain"] = None
    write_json(attributes, contents)
    with pytest.raises(DataError, match="gain None for spikes of"):
        find_damage(manifest)
    write_store(manifest.with_suffix(".zarr"), METADATA, random_frames(METADATA, 1))
    (fault,) = find_damage(manifest)
    assert "not those that s.json was written for" in fault


def test_an_edited_manifest_is_no_sound_store_and_is_not_trained_on(pristine_raw_data, tmp_path):
    checked(pristine_raw_data, SEQUENCES[:1], tmp_path / "ingest")
    stage = VoxelizeStage(
        tmp_path / "k8", str(pristine_raw_data), tmp_path / "ingest", StoreOptions(bins=8)
    )
    stage.make(SEQUENCES[0])
    path = stage.manifest(SEQUENCES[0])
    assert stage.existing_entry(SEQUENCES[0]) is not None
    assert find_damage(path) == []
    contents = read_json(path)
    write_json(path, {**contents, "gain": 99})
    for use in (find_damage, lambda path: merged(path.parent.parent, SEQUENCES[:1])):
        with pytest.raises(DataError, match=r"GOPR0001_11_00\.json: the entries are not those"):
            use(path)
    # The stage makes it again.
    assert stage.existing_entry(SEQUENCES[0]) is None


def test_what_is_lost_is_told(manifest):
    missing = manifest.with_name("missing.json")
    with pytest.raises(DataError, match=r"missing\.json: No such file .* store manifest"):
        find_damage(missing)
    missing.write_text("{")
    with pytest.raises(DataError, match=r"missing\.json: no JSON .* store manifest"):
        find_damage(missing)
    write_json(missing, read_json(manifest))
    with pytest.raises(DataError, match=r"missing\.zarr: no store that can be read"):
        find_damage(missing)


def test_no_damage_of_metadata_is_a_crash(manifest):
    random = np.random.default_rng(0)
    store = manifest.with_suffix(".zarr")
    for path in (store / "zarr.json", store / "sharp/zarr.json", store / "voxels/zarr.json"):
        whole = path.read_bytes()
        named = 0
        for place in random.integers(len(whole), size=30):
            flip(path, place, 1 << int(random.integers(8)))
            try:
                named += bool(find_damage(manifest))
            except DataError:
                named += 1
            path.write_bytes(whole)
        assert named > 20


def test_the_command_says_sound_or_names_the_damage(manifest, tmp_path, capsys):
    dataset, splits = tmp_path / "dataset.json", {"train": [{"sequence": "s", "frames": 2}]}
    keys = ("dataset", "bins", "context", "blur_dir", "digest", "overlaps", "statistics")
    contents = {"schema": DATASET.schema, "splits": splits, "held_out": [], **dict.fromkeys(keys)}
    write_json(dataset, contents)
    assert not run_command(["verify", str(dataset)])
    assert capsys.readouterr().out == f"{manifest}: sound\n"
    flip(file_of(manifest, "voxels"), 40)
    with pytest.raises(DataError, match="voxels of frame 000000"):
        run_command(["verify", str(dataset)])
    with pytest.raises(DataError, match=r"not the data set manifest .* found schema None"):
        run_command(["verify", str(manifest.with_suffix(".zarr") / "zarr.json")])
