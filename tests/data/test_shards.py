"""Shards: their number and bounds, and the stable place of a sequence."""

from __future__ import annotations

import hashlib

import pytest

from vrtspike.data.shards import shard_count, shard_members, shard_names, shard_of
from vrtspike.deblurring_settings.workflow_settings import ShardSettings
from vrtspike.system.errors import DataError

NAMES = [f"{split}/s{number:04d}" for split in ("train", "test") for number in range(500)]


@pytest.mark.parametrize(
    ("sequences", "gigabytes", "shards"),
    [
        (33, 15, 1),
        (200, 0, 2),
        (1000, 446, 16),
        (10_000, 1, 128),
        (33, 32, 1),
        (33, 33, 2),
        (33, 256, 8),
        # No more shards than there are sequences, up to the next power of two.
        (3, 10**9, 4),
        (1, 10**9, 1),
    ],
)
def test_many_tiny_sequences_are_few_jobs_and_large_ones_are_bounded_by_bytes(
    sequences, gigabytes, shards
):
    """By default: 200 tiny sequences are a job of each stage for each of two nodes."""
    bounds = ShardSettings()
    assert shard_count(sequences, gigabytes, bounds.SEQUENCES, bounds.GB) == shards


def test_every_sequence_falls_into_exactly_one_shard():
    shards = [shard_members(shard, NAMES) for shard in shard_names(8)]
    assert sorted(name for names in shards for name in names) == sorted(NAMES)
    sizes = [len(shard) for shard in shards]
    assert min(sizes) > 80
    assert max(sizes) < 170  # 125 each, and 6 standard deviations


def test_a_sequence_stays_in_its_shard_on_every_machine_and_from_run_to_run():
    digest = int(hashlib.sha256(b"train/s0001").hexdigest()[:16], 16)
    for count in (1, 2, 8, 1024):
        assert shard_of("train/s0001", count) == f"{digest % count}-of-{count}"
    # A file name that is no text.
    assert shard_of("train/\udcff", 8) in shard_names(8)


@pytest.mark.parametrize("name", ["2-of-2", "a-of-2", "1of2", "0-of-0", "00-of-1", "0-of-1/", ""])
def test_what_names_no_shard_is_refused(name):
    with pytest.raises(DataError, match="names no shard"):
        shard_members(name, NAMES)
