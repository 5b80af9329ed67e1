from __future__ import annotations

import os

import pytest

from tests.deblurring.data.conftest import SEQUENCES
from vrtspike.deblurring.data.bundles import make_share
from vrtspike.deblurring.data.gate import ingest_share as module
from vrtspike.deblurring.data.gate.ingest_share import Ingestion
from vrtspike.deblurring.data.manifests import INGEST_SHARE, INGESTED, contents_digest
from vrtspike.errors import DataError
from vrtspike.files import read_json, write_json
from vrtspike.manifests import read_manifest

NAME = SEQUENCES[0]


@pytest.fixture
def checked(dataset, tmp_path):
    """All three sequences, checked; call it to do so again."""

    def again(**options):
        stage = Ingestion(str(dataset), tmp_path / "ingest", "blur", "auto", **options)
        lines: list[str] = []
        output = tmp_path / "ingest/shares/0-of-1.json"
        make_share(stage, sorted(SEQUENCES), tmp_path / "ingest", output, 1, lines.append)
        made = sorted(line.split()[1].rstrip(":") for line in lines[1:])
        return made, read_manifest(output, INGEST_SHARE)["sequences"]

    again()
    return again


def manifest(tmp_path, name=NAME):
    return read_manifest(tmp_path / "ingest" / f"{name}.json", INGESTED)


def test_the_share_lists_what_the_manifests_say(checked, tmp_path):
    made, entries = checked()
    assert made == []
    assert list(entries) == sorted(SEQUENCES)
    path = tmp_path / "ingest" / f"{NAME}.json"
    assert entries[NAME] == {
        "contents": contents_digest(read_json(path)),
        "bytes": len(path.read_bytes()),
        "version": read_json(path)["source_version"],
    }


def test_only_what_changed_is_checked_again(checked, dataset, tmp_path):
    _, before = checked()
    path = dataset / NAME / "spike/000002.dat"
    contents = path.read_bytes()
    path.write_bytes(bytes([contents[0] ^ 1]) + contents[1:])
    os.utime(path, (1e9, 1e9))  # other contents, older than what they replace
    made, after = checked()
    assert made == [NAME]
    assert after[NAME]["contents"] != before[NAME]["contents"]
    assert {n: e for n, e in after.items() if n != NAME} == {
        n: e for n, e in before.items() if n != NAME
    }
    os.utime(path)
    assert checked()[0] == []


def test_other_options_and_other_code_check_everything_again(checked, monkeypatch):
    _, before = checked()
    other = checked(spike_size=(64, 48))[1]
    assert other[NAME]["contents"] != before[NAME]["contents"]
    assert checked(spike_size=(48, 64))[0] == sorted(SEQUENCES)
    made, after = checked()
    assert made == sorted(SEQUENCES)
    assert after == before
    monkeypatch.setattr(module, "ingest_recipe", lambda *options: "of other code")
    made, after = checked()
    assert made == sorted(SEQUENCES)
    # The same was found: nothing that follows has to be done again.
    assert {n: e["contents"] for n, e in after.items()} == {
        n: e["contents"] for n, e in before.items()
    }


@pytest.mark.parametrize("damage", ["missing", "cut", "old"])
def test_a_manifest_that_cannot_be_used_is_made_again(checked, tmp_path, damage):
    path = tmp_path / "ingest" / f"{NAME}.json"
    contents = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(contents[:100])
    else:
        write_json(path, {k: v for k, v in read_json(path).items() if k != "recipe"})
    assert checked()[0] == [NAME]
    assert path.read_bytes() == contents


def test_a_file_that_could_not_be_read_is_no_known_version(checked, dataset, tmp_path):
    link = dataset / NAME / "blur/000002.png"
    link.unlink()
    link.symlink_to(tmp_path / "nowhere.png")
    made, entries = checked()
    assert made == [NAME]
    assert manifest(tmp_path)["faults"]
    assert entries[NAME]["version"] == ""
    assert entries[SEQUENCES[1]]["version"] != ""
    assert checked()[0] == []


def test_files_that_change_while_they_are_checked_are_named(
    checked, dataset, tmp_path, monkeypatch
):
    path = dataset / NAME / "spike/000002.dat"
    before = manifest(tmp_path)

    def ingest_and_change(*arguments, **options):
        found = whole(*arguments, **options)
        path.write_bytes(path.read_bytes()[:-1])
        return found

    path.write_bytes(bytes(len(path.read_bytes())))
    whole = module.ingest_sequence
    monkeypatch.setattr(module, "ingest_sequence", ingest_and_change)
    with pytest.raises(DataError, match=f"{NAME}: its files changed while they were checked"):
        checked()
    assert manifest(tmp_path) == before
    monkeypatch.undo()
    assert checked()[0] == [NAME]


def test_a_sequence_that_is_gone_is_named(checked, dataset):
    (dataset / NAME).rename(dataset / "elsewhere")
    with pytest.raises(DataError, match=f"- .*{NAME}: no such sequence folder"):
        checked()
