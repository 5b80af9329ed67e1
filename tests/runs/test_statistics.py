"""What a model's spikes are standardised with lies beside its weights."""

from __future__ import annotations

import pytest

from tests.runs.test_identity import STATISTICS, write_dataset
from tests.runs.test_prepare import begin, go_on, place
from vrtspike.deblurring.data.store.voxels import Statistics
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.statistics import read_statistics
from vrtspike.errors import RunError
from vrtspike.files import read_json, write_json
from vrtspike.runs.identity import identify
from vrtspike.runs.publish import publish
from vrtspike.runs.statistics import write_statistics

__all__ = ["place"]


def make_run(tmp_path, **sections):
    """A run folder with the identity of a data set in ``tmp_path``."""
    settings = Settings.model_validate({"DATA": {"K": 4}, **sections})
    dataset = write_dataset(tmp_path / "dataset.json", STATISTICS)
    folder = tmp_path / "run"
    identify("x", settings, dataset).write(folder)
    return folder


def test_the_file_says_with_what_and_of_which_data(tmp_path):
    folder = make_run(tmp_path)
    write_statistics(folder)
    assert read_json(folder / "statistics.json") == {
        "schema": 1, "dataset": "x", "dataset_digest": "d", "bins": 4, "statistics": STATISTICS,
    }  # fmt: skip
    (tmp_path / "dataset.json").unlink()
    assert read_statistics(folder) == Statistics(0.1, 0.2, 3)


def test_a_model_without_spikes_has_none(tmp_path):
    folder = make_run(tmp_path, MODEL={"USE_SPIKE": False})
    write_statistics(folder)
    found = read_json(folder / "statistics.json")
    assert (found["statistics"], found["bins"], found["dataset_digest"]) == (None, 4, "d")
    assert read_statistics(folder) is None


def test_given_values_win(tmp_path):
    data = {"K": 4, "NORM": {"MEAN": 0.5, "STD": 2.0}}
    folder = make_run(tmp_path, DATA=data)
    assert read_statistics(folder) == Statistics(0.5, 2.0, 0)


def test_a_run_has_them_from_its_beginning_and_after_an_update(place):
    begin(place)
    path = place / "run" / "statistics.json"
    assert read_json(path)["statistics"] == STATISTICS
    path.unlink()
    go_on(place)
    assert read_json(path)["statistics"] == STATISTICS


def finish(folder):
    """What else a finished run holds."""
    write_json(folder / "run.json", {"status": "finished"})
    for name in ("weights.safetensors", "code.json", "metrics.jsonl", "logs/memory.jsonl"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()


def test_a_run_of_an_earlier_version_is_published_with_them(tmp_path):
    folder = make_run(tmp_path)
    finish(folder)
    publish(folder, tmp_path / "out")
    assert read_json(tmp_path / "out" / "statistics.json")["statistics"] == STATISTICS


def test_a_run_on_data_of_others_is_published_without(tmp_path):
    folder = make_run(tmp_path)
    identity = read_json(folder / "settings.json") | {"dataset_digest": None}
    write_json(folder / "settings.json", identity)
    finish(folder)
    publish(folder, tmp_path / "out")
    assert not (tmp_path / "out" / "statistics.json").exists()


def test_what_cannot_be_made_is_told(tmp_path):
    folder = make_run(tmp_path)
    write_dataset(tmp_path / "dataset.json", STATISTICS, "made anew")
    with pytest.raises(RunError, match=r"statistics\.json: no such file.*has changed since"):
        read_statistics(folder)
    (tmp_path / "dataset.json").unlink()
    with pytest.raises(RunError, match=r"statistics\.json: no such file.*dataset\.json"):
        read_statistics(folder)
    assert not (folder / "statistics.json").exists()


@pytest.mark.parametrize("contents", ["{", "[]", "{}", '{"statistics": {"mean": 1}}'])
def test_damage_is_told(tmp_path, contents):
    (tmp_path / "statistics.json").write_text(contents)
    with pytest.raises(RunError, match=r"statistics\.json: damaged, or not the statistics"):
        read_statistics(tmp_path)
