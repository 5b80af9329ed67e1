from __future__ import annotations

import pytest

from vrtspike.errors import ConfigError, RunError
from vrtspike.runs.published import read_published


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


def test_a_record_without_a_name_is_refused(publish):
    folder = publish()
    (folder / "run.json").write_text("{}")
    with pytest.raises(RunError, match="not the record of a run"):
        read_published(folder)


def test_only_the_evaluation_can_be_replaced(publish):
    run = read_published(publish())
    other = run.with_overrides(["TEST.TILE.SIZE=128", "TEST.METRICS=[psnr]", "WEIGHTS.DIR=w"])
    assert other.settings.TEST.TILE.SIZE == 128
    assert other.settings.TEST.METRICS == ("psnr",)
    assert other.settings.TRAIN == run.settings.TRAIN
    with pytest.raises(ConfigError, match="changes what the weights were trained with"):
        run.with_overrides(["TRAIN.OPTIM.LR=1.0"])
    with pytest.raises(ConfigError, match="SIZES"):
        run.with_overrides(["TEST.TILE.SIZES=128"])
