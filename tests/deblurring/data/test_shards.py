from __future__ import annotations

import hashlib

import pytest

from vrtspike.deblurring.data.shards import Shard, divide, shard_count, shard_number, shards
from vrtspike.deblurring.settings.workflow import ShardSettings
from vrtspike.errors import DataError

NAMES = [f"{split}/s{number:04d}" for split in ("train", "test") for number in range(500)]


def count(sequences, nbytes=0, most=64, most_bytes=100.0):
    return shard_count(sequences, nbytes, most, most_bytes)


@pytest.mark.parametrize(
    ("sequences", "gigabytes", "shards"),
    [(33, 15, 1), (200, 0, 2), (1000, 446, 16), (10_000, 1, 128)],
)
def test_many_tiny_sequences_are_few_jobs_and_large_ones_are_bounded_by_bytes(
    sequences, gigabytes, shards
):
    """By default: 200 tiny sequences are a job of each stage for each of two nodes."""
    bounds = ShardSettings()
    assert count(sequences, gigabytes, bounds.SEQUENCES, bounds.GB) == shards


def test_every_sequence_falls_into_exactly_one_share():
    found = [name for shard in shards(8) for name in shard.of(NAMES)]
    assert sorted(found) == sorted(NAMES)
    sizes = [len(shard.of(NAMES)) for shard in shards(8)]
    assert min(sizes) > 80
    assert max(sizes) < 170  # 125 each, and 6 standard deviations


def test_a_data_set_is_divided_into_the_shares_that_hold_something():
    divided = divide(reversed(NAMES), 8)
    assert list(divided) == shards(8)
    assert all(found == shard.of(NAMES) for shard, found in divided.items())
    (shard,) = divide(["train/a"], 8)
    assert shard.of(["train/a"]) == ["train/a"]
    assert divide([], 8) == {}


def test_a_sequence_stays_in_its_share_on_every_machine_and_from_run_to_run():
    digest = int(hashlib.sha256(b"train/s0001").hexdigest()[:16], 16)
    for number in (1, 2, 8, 1024):
        assert shard_number("train/s0001", number) == digest % number
    assert Shard(digest % 8, 8).of(["train/s0001"]) == ["train/s0001"]
    # A file name that is no text.
    assert 0 <= shard_number("train/\udcff", 8) < 8


def test_shards_are_told_by_their_names():
    assert [str(shard) for shard in shards(2)] == ["0-of-2", "1-of-2"]
    assert Shard.parse("11-of-16") == Shard(11, 16)
    for name in ("2-of-2", "a-of-2", "1of2", "0-of-0", "0-of-1/", ""):
        with pytest.raises(DataError, match="names no shard"):
            Shard.parse(name)


def test_shards_hold_so_many_bytes_on_the_average():
    assert count(33, 100) == 1
    assert count(33, 101) == 2
    assert count(33, 800) == 8
    # No more shards than there are sequences, up to the next power of two.
    assert count(3, 10**9) == 4
    assert count(1, 10**9) == 1
