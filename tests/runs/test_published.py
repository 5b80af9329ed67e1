"""Published runs: reading, missing and changed files, unfinished runs."""

from __future__ import annotations

import shutil

import pytest

from tests.helpers.published_runs import write_lines
from tests.runs.data_sets import finish, make_run
from vrtspike.io.files import file_digest, read_json, write_json
from vrtspike.runs.published import publish as publish_run
from vrtspike.runs.published import read_published, require_published
from vrtspike.runs.validation_pictures import find_pictures, picture_file
from vrtspike.system.errors import ConfigError, RunError


def test_reads_name_fingerprint_and_settings(publish):
    run = read_published(publish("fast", TRAIN={"BATCH_SIZE": 3}))
    assert (run.name, run.fingerprint) == ("fast", "fingerprint of fast")
    assert run.settings.TRAIN.BATCH_SIZE == 3
    assert run.parameters == 1234567


@pytest.mark.parametrize("name", ["run.json", "settings.json"])
def test_a_folder_without_its_files_is_refused(publish, name):
    folder = publish()
    (folder / name).unlink()
    with pytest.raises(RunError, match=f"{name}: no such file"):
        read_published(folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "statistics.json"])
def test_files_changed_after_publication_are_refused(tmp_path, name):
    weights = tmp_path / "weights.safetensors"
    for number, path in enumerate((weights, tmp_path / "statistics.json")):
        path.write_bytes(bytes([number]) * 1000)
    require_published(weights)  # nothing is known of it
    digests = {path.name: file_digest(path) for path in tmp_path.iterdir()}
    write_json(tmp_path / "run.json", {"status": "finished", "digests": digests})
    require_published(str(weights))
    changed = bytearray((tmp_path / name).read_bytes())
    changed[500] ^= 1
    (tmp_path / name).write_bytes(changed)
    with pytest.raises(RunError, match=f"{name}: was changed after it was published"):
        require_published(weights)


def test_only_the_evaluation_can_be_replaced(publish):
    run = read_published(publish())
    other = run.with_overrides(["TEST.TILE.SIZE=128", "TEST.METRICS=[psnr]", "WEIGHTS.DIR=w"])
    assert other.settings.TEST.TILE.SIZE == 128
    assert other.settings.TEST.METRICS == ("psnr",)
    assert other.settings.TRAIN == run.settings.TRAIN
    with pytest.raises(ConfigError, match="would change the settings of the training"):
        run.with_overrides(["TRAIN.OPTIM.LR=1.0"])
    with pytest.raises(ConfigError, match="SIZES"):
        run.with_overrides(["TEST.TILE.SIZES=128"])


def test_only_finished_runs_are_published(tmp_path):
    for status, fault in (("interrupted", "the run is i"), ("finished", "no such file; remove")):
        write_json(tmp_path / "run" / "run.json", {"status": status})
        with pytest.raises(RunError, match=fault):
            publish_run(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_without_its_log_of_memory_is_refused(tmp_path):
    folder = make_run(tmp_path)
    finish(folder)
    (folder / "logs/memory.jsonl").unlink()
    with pytest.raises(RunError, match=r"logs/memory\.jsonl: no such file; remove"):
        publish_run(folder, tmp_path / "out")


def test_a_published_result_has_the_pictures_of_some_validations(publish, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(publish("one"), folder)
    (folder / "logs").mkdir()
    for name in ("memory.jsonl", "timing.jsonl"):
        (folder / name).rename(folder / "logs" / name.replace("timing", "timing_1"))
    for name in ("weights.safetensors", "statistics.json", "code.json"):
        (folder / name).write_text("{}")
    assert find_pictures(folder) == {}
    publish_run(folder, tmp_path / "out")
    assert not (tmp_path / "out/pictures").exists()
    (folder / "pictures").mkdir()
    for step in range(1, 41):
        for name in ("restored", "map_2"):
            picture_file(folder, 100_000_000 * step, name).write_text(f"{name} {step}")
    (folder / "pictures/step_1.txt").write_text("")
    publish_run(folder, tmp_path / "out")
    pictures = find_pictures(tmp_path / "out")
    assert [step // 100_000_000 for step in pictures] == [1, 7, 12, 18, 23, 29, 34, 40]
    assert sorted(pictures[100_000_000]) == ["map_2", "restored"]
    assert pictures[4_000_000_000]["map_2"].read_text() == "map_2 40"
    assert len(list((tmp_path / "out/pictures").iterdir())) == 16


def test_a_run_is_published_with_digests_and_a_table_of_its_records(tmp_path):
    folder, output = make_run(tmp_path), tmp_path / "out"
    finish(folder)
    (folder / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "losses": {"a": 2}}\n')
    timings = [{"kind": "work"}, {"kind": "step", "step": 1}, {"kind": "summary"}]
    write_lines(folder / "logs" / "timing_1.jsonl", timings)
    publish_run(folder, output)
    assert (output / "timing.jsonl").read_text() == '{"kind": "step", "step": 1}\n'
    assert (output / "metrics.csv").read_text().splitlines() == [
        "kind,step,losses.a", "train,1,2",
    ]  # fmt: skip
    files = ("statistics.json", "weights.safetensors")
    assert read_json(output / "run.json")["digests"] == {
        name: file_digest(output / name) for name in files
    }
