from __future__ import annotations

import pytest

from vrtspike.deblurring.data.manifests import ACCEPTED
from vrtspike.files import write_json
from vrtspike.planning.damage import is_damaged, is_missed


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "accepted.json"
    write_json(path, {"schema": ACCEPTED.schema, "sequences": ["train/a"], "excluded": {}})
    return path


def test_a_sound_manifest_and_a_missing_one_are_not_damaged(manifest):
    assert not is_damaged(manifest, ACCEPTED)
    manifest.unlink()
    assert not is_damaged(manifest, ACCEPTED)


def test_wherever_it_is_cut_it_is_damaged(manifest):
    whole = manifest.read_bytes()
    for length in range(len(whole)):
        manifest.write_bytes(whole[:length])
        # Without its last line break it can still be read.
        assert is_damaged(manifest, ACCEPTED) == (length < len(whole) - 1), length


def test_another_version_and_another_thing_are_made_again(manifest):
    write_json(manifest, {"schema": ACCEPTED.schema + 1, "sequences": [], "excluded": {}})
    assert is_damaged(manifest, ACCEPTED)
    write_json(manifest, {"schema": ACCEPTED.schema, "sequences": []})
    assert is_damaged(manifest, ACCEPTED)
    manifest.unlink()
    manifest.mkdir()
    assert is_damaged(manifest, ACCEPTED)


def test_what_is_missing_is_missed_where_something_was_made_of_it(tmp_path):
    assert is_missed(tmp_path, "data/a.csv")
    assert not is_missed(tmp_path, "data/a.csv", "data/k*/b.json")
    (tmp_path / "data/k8").mkdir(parents=True)
    (tmp_path / "data/k8/b.json").touch()
    assert is_missed(tmp_path, "data/a.csv", "data/k*/b.json")
    (tmp_path / "data/a.csv").touch()
    assert not is_missed(tmp_path, "data/a.csv", "data/k*/b.json")
    assert not is_missed(tmp_path, "data/a.csv")
