"""Checkpoints: newest and older ones, damage, foreign files."""

from __future__ import annotations

import pytest
import torch

from vrtspike.config.run_schema import TrainSettings
from vrtspike.system.errors import RunError
from vrtspike.training.checkpoints import (
    FORMAT,
    checkpoint_path,
    latest_checkpoint,
    list_checkpoints,
    micro_batches_per_step,
    read_checkpoint,
    save_checkpoint,
)


def save(folder, *steps, keep=3):
    for step in steps:
        save_checkpoint(folder, {"step": step, "weights": torch.full((1000,), step)}, keep)


def test_newest_is_read_and_old_ones_are_removed(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    save(tmp_path, 5, 10, 15, keep=2)
    assert [step for step, _ in list_checkpoints(tmp_path)] == [15, 10]
    state = latest_checkpoint(tmp_path)
    assert state["step"] == 15
    assert torch.equal(state["weights"], torch.full((1000,), 15))
    kept = ["step_00000010.pt", "step_00000015.pt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept


@pytest.mark.parametrize("length", [0, 1, 100, 3000, -700, -100, -1])
def test_truncated_checkpoint_offers_the_next_older_one(tmp_path, length):
    save(tmp_path, 5, 10, 15, 20, keep=4)
    for step, older in ((20, 15), (15, 10)):
        newest = checkpoint_path(tmp_path, step)
        newest.write_bytes(newest.read_bytes()[:length])
        message = rf"damaged.*next older one is \S*step_000000{older}\.pt"
        with pytest.raises(RunError, match=message):
            latest_checkpoint(tmp_path)
        newest.unlink()
    assert latest_checkpoint(tmp_path)["step"] == 10
    # What is asked for need not be the newest.
    checkpoint_path(tmp_path, 7).write_bytes(b"")
    with pytest.raises(RunError, match=r"next older one is \S*step_00000005\.pt"):
        read_checkpoint(checkpoint_path(tmp_path, 7))


def test_damage_is_an_error_wherever_it_is(tmp_path):
    save(tmp_path, 5)
    path = checkpoint_path(tmp_path, 5)
    whole = path.read_bytes()
    inside = whole.index(bytes([5, 0, 0, 0, 0, 0, 0, 0] * 4)) + 1
    path.write_bytes(whole[:inside] + b"\1" + whole[inside + 1 :])
    with pytest.raises(RunError, match=r"data/0 is damaged"):
        read_checkpoint(path)
    refused = 0
    # All around the weights: the headers, the names and the directory of the archive.
    for place in [*range(0, 600, 4), *range(len(whole) - 700, len(whole), 4)]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x80
        path.write_bytes(damaged)
        try:
            state = read_checkpoint(path)
        except RunError:
            refused += 1
            continue
        assert torch.equal(state["weights"], torch.full((1000,), 5))
    assert refused > 125


class Payload:
    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize(
    "state", [{"state_dict": {}}, {"format": FORMAT, "step": Payload()}, {"format": "other"}]
)
def test_foreign_files_are_refused_and_no_code_in_them_is_run(tmp_path, capsys, state):
    path = checkpoint_path(tmp_path, 1)
    torch.save(state, path)
    with pytest.raises(RunError, match=r"cannot be read as a checkpoint .* no older one"):
        read_checkpoint(path)
    assert "executed" not in capsys.readouterr().out
    # What cannot even be opened is not called damaged.
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        read_checkpoint(path)


def test_a_run_keeps_its_batches_per_step_on_other_numbers_of_processes():
    train = TrainSettings(GRADIENT_ACCUMULATION_STEPS=3)
    assert micro_batches_per_step(train, 4, None) == 12
    assert micro_batches_per_step(train, 2, {"micro_batches": 12}) == 12
    with pytest.raises(RunError, match=r"12 batches per optimiser step.*5 processes"):
        micro_batches_per_step(train, 5, {"micro_batches": 12})
