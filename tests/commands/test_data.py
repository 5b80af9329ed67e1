"""``vrtspike data`` and its table of public data sets."""

from __future__ import annotations

import re

import pytest

from tests.data.raw.names import PATTERNS, write_gopro, write_names
from vrtspike.commands.main import run_command
from vrtspike.commands.public_sets.table import ERA5, NOT_STATED, read_public_sets
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.sst.generate import Globe, write_example
from vrtspike.system.errors import ConfigError, DataError

NAMES = ["GOPRO_Large", "Spk-GoPro", "Spk-X4K1000FPS", "S-SDM GOPRO", "RSB", "BSD", "REDS", "ERA5"]


FACTS = ("source", "size", "licence", "checksum", "folders", "sequences", "frames")
"""Fields that are facts of a public page."""


def test_every_fact_names_the_page_on_which_it_was_seen():
    sets = read_public_sets()
    assert [entry.name for entry in sets] == NAMES
    for entry in sets:
        stated = [fact for fact in FACTS if getattr(entry, fact) not in (NOT_STATED, {})]
        assert sorted(entry.origins) == sorted(stated)
        for page in entry.origins.values():
            assert re.match(r"https://|docs/\w|GOPRO_Large: ", page), page


def test_layouts_and_splits_of_the_sets_are_known():
    for entry in read_public_sets():
        assert set(entry.layouts) <= {*LAYOUTS, ERA5}
        assert set(entry.frames) <= set(entry.sequences)


def test_the_table_shows_each_fact_and_its_page(capsys):
    assert run_command(["data"]) == 0
    blocks = capsys.readouterr().out.split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == NAMES
    assert "  licence   CC BY 4.0" in blocks[0].splitlines()
    assert "  size      not stated" in blocks[1].splitlines()
    for block, entry in zip(blocks, read_public_sets(), strict=True):
        assert entry.source in block
        assert all(page in block for page in entry.origins.values())


@pytest.mark.parametrize("spikes", [False, True])
def test_gopro_is_complete_with_and_without_spikes(spikes, tmp_path, capsys):
    write_gopro(tmp_path, spikes=spikes)
    assert run_command(["data", "check", str(tmp_path)]) == 0
    name, test, train, published, end = capsys.readouterr().out.splitlines()
    set_name = "Spk-GoPro" if spikes else "GOPRO_Large"
    assert name == f"{tmp_path}: looks like {set_name} (layout spk_gopro)"
    number = 22 if spikes else 0
    assert train == (
        f"train: 22 sequences, 2103 blurry and 2103 sharp frames, {number} sequences with spikes"
    )
    assert test.startswith("test: 11 sequences, 1111 blurry and 1111 sharp frames, ")
    assert published.startswith("published: train: 22 sequences, 2103 frames; test: 11 sequences")
    assert end == "complete"


def test_faults_end_with_status_1_and_advice(tmp_path, capsys):
    write_names(tmp_path, "reds", {"train": 2, "val": 1})
    assert run_command(["data", "check", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path}: looks like REDS (layout reds)"
    assert any("snakemake -n check_data" in line for line in lines)
    assert "! train: found 2 sequences, expected 240: " in lines[-3]
    assert lines[-1] == "incomplete (2)"


@pytest.mark.parametrize("layout", sorted(PATTERNS))
def test_each_layout_has_its_set_or_none(layout, tmp_path, capsys):
    write_names(tmp_path, layout, {"train": 1, "test": 1})
    status = run_command(["data", "check", str(tmp_path)])
    first = capsys.readouterr().out.splitlines()[0]
    sets = [entry for entry in read_public_sets() if layout in entry.layouts]
    names = [entry.name for entry in sets] or ["no public set"]
    assert first in [f"{tmp_path}: looks like {name} (layout {layout})" for name in names]
    assert status == (1 if any(entry.sequences for entry in sets) else 0)


def test_spikes_are_looked_for_under_their_own_root(tmp_path, capsys):
    frames, spikes = tmp_path / "frames", tmp_path / "spikes"
    write_gopro(frames, spikes=False)
    spikes.mkdir()
    words = ["data", "check", str(frames), "--spike-root", str(spikes)]
    assert run_command(words) == 1
    printed = capsys.readouterr().out
    assert "looks like Spk-GoPro" in printed
    assert "without spikes (GOPR0000_11_00, GOPR0001_11_00, GOPR0002_11_00, and 19 " in printed
    assert f"expected {spikes}/train/<sequence>/spike/*.dat" in printed


def test_a_download_of_era5(tmp_path, capsys):
    write_example(tmp_path, Globe(first_year=2000, years=2, step=30.0))
    assert run_command(["data", "check", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}: looks like ERA5",
        "months: 2000-01 to 2001-12, with sea ice",
        "complete",
    ]
    (tmp_path / "other.nc").write_text("no NetCDF")
    assert run_command(["data", "check", str(tmp_path)]) == 1
    assert f"! {tmp_path}/other.nc: cannot be used" in capsys.readouterr().out
    assert any(ERA5 in entry.layouts for entry in read_public_sets())


def test_a_folder_of_no_layout_and_the_one_that_is_meant(tmp_path, capsys):
    write_names(tmp_path / "set", "bsd", {"train": 1})
    assert run_command(["data", "check", str(tmp_path)]) == 1
    fault, end = capsys.readouterr().out.splitlines()
    assert fault.startswith(f"! {tmp_path}: found the folders of no known layout, expected one of")
    assert fault.endswith(f"did you mean {tmp_path}/set?")
    assert end == "incomplete (1)"
    write_names(tmp_path / "above/set", "spk_gopro", {"mine": 1, "test": 1})
    assert run_command(["data", "check", str(tmp_path / "above/set/mine")]) == 1
    assert f"did you mean {tmp_path}/above/set?" in capsys.readouterr().out


def test_wrong_calls_are_refused(tmp_path):
    with pytest.raises(DataError, match="nosuch: found no folder"):
        run_command(["data", "check", str(tmp_path / "nosuch")])
    with pytest.raises(ConfigError, match="vrtspike data check: found no PATH"):
        run_command(["data", "check"])
    with pytest.raises(ConfigError, match="--spike-root a: found no PATH to check"):
        run_command(["data", "--spike-root", "a"])
