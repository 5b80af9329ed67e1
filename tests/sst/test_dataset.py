from __future__ import annotations

import pickle
import shutil
from dataclasses import asdict

import numpy as np
import pytest
import torch

from tests.sst.conftest import PACIFIC, YEARS, changed
from vrtspike.errors import ConfigError, DataError
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.settings import month_number


def months(store, first: tuple[int, int], count: int) -> np.ndarray:
    place = month_number(*first) - store.first_month
    return np.nan_to_num(store.standardised[place : place + count])


def test_a_sample_is_some_months_and_those_that_follow(store):
    data = ERA5SSTMonthlyDataset(3, store=store.path, lead=2)
    skipping = ERA5SSTMonthlyDataset(2, offset=3, store=store.path)
    np.testing.assert_array_equal(skipping[0]["future"], months(store, (1980, 6), 1))
    sample = data[10]
    assert sample["past"].shape == (3, 10, 20)
    np.testing.assert_array_equal(sample["past"], months(store, (1980, 11), 3))
    np.testing.assert_array_equal(sample["future"], months(store, (1981, 2), 2))
    # January 1981 is the last month that is read.
    assert int(sample["month"]) == 0
    assert data.last_month(10) == month_number(1981, 1)
    np.testing.assert_array_equal(sample["valid"], np.isfinite(store.standardised[13:15]))


@pytest.mark.parametrize(
    ("split", "first", "years"), [("train", 1980, 5), ("val", 1985, 2), ("test", 1987, 2)]
)
def test_every_month_of_a_sample_lies_in_its_split(store, split, first, years):
    data = ERA5SSTMonthlyDataset(4, offset=1, store=store.path, lead=2, split=split)
    assert len(data) == 12 * years - 6
    np.testing.assert_array_equal(data[0]["past"], months(store, (first, 1), 4))
    last = data[len(data) - 1]["future"]
    np.testing.assert_array_equal(last, months(store, (first + years - 1, 11), 2))
    for outside in (-1, len(data)):
        with pytest.raises(IndexError):
            data[outside]


def test_it_reads_files_as_they_were_downloaded(download, store, tmp_path):
    data = ERA5SSTMonthlyDataset(
        seq_len=2,
        offset=0,
        resolution=8,
        area=asdict(PACIFIC),
        data=str(download),
        years=YEARS.model_dump(),
        prepared=tmp_path,
    )
    assert data.store.digest == store.digest


def test_a_worker_gets_no_data_but_reads_its_own(store):
    data = ERA5SSTMonthlyDataset(2, store=store.path)
    expected = data[5]["past"]
    sent = pickle.dumps(data)
    assert len(sent) < 10_000
    assert torch.equal(pickle.loads(sent)[5]["past"], expected)


def test_samples_with_missing_months_are_left_out_and_counted(download, tmp_path):
    """1980-06 is missing: of three months read, one skipped and one forecast, four samples."""
    shutil.copy(download / "sst.nc", tmp_path)
    changed(tmp_path / "sst.nc", lambda d: d.drop_isel(valid_time=5))
    options = {"area": PACIFIC, "data": tmp_path, "years": YEARS.model_dump()}
    data = ERA5SSTMonthlyDataset(3, 1, 8, **options)
    assert data.left_out == 4
    assert len(data) == 56 - 4
    # The month may be skipped.
    firsts = [data.last_month(index) - 2 - month_number(1980, 1) for index in range(len(data))]
    assert firsts == [0, 2, *range(6, 56)]
    whole = ERA5SSTMonthlyDataset(3, 1, 8, **options | {"split": "test"})
    assert (whole.left_out, len(whole)) == (0, 20)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seq_len": 0}, "seq_len: found 0"),
        ({"seq_len": 2.0}, "seq_len: found 2.0"),
        ({"offset": -1}, "offset: found -1"),
        ({"lead": 0}, "lead: found 0"),
        ({"split": "training"}, "split: found 'training'"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(store, options, words):
    with pytest.raises(ConfigError, match=words):
        ERA5SSTMonthlyDataset(**{"seq_len": 2, "store": store.path} | options)


def test_a_region_or_a_store_is_needed():
    with pytest.raises(ConfigError, match="expected a region"):
        ERA5SSTMonthlyDataset(2)


def test_a_split_shorter_than_a_sample_is_refused(store):
    with pytest.raises(
        DataError, match=r"val have 24 months, 0 of them missing, .*takes 25 \(seq_len 20, offset 4"
    ):
        ERA5SSTMonthlyDataset(20, offset=4, store=store.path, split="val")
    assert len(ERA5SSTMonthlyDataset(20, offset=3, store=store.path, split="val")) == 1
