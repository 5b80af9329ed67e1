from __future__ import annotations

import pytest
import torch

from vrtspike.deblurring.metrics.lpips import LPIPS
from vrtspike.errors import DataError

CPU = torch.device("cpu")


def test_missing_weights_are_an_error_that_says_how_to_get_them(tmp_path):
    message = r"alexnet-owt-7be5be79\.pth: no such file; `snakemake --cores 1 weights`"
    with pytest.raises(DataError, match=message):
        LPIPS.load(tmp_path, CPU)


def test_other_weights_are_refused(tmp_path):
    (tmp_path / "alexnet-owt-7be5be79.pth").write_bytes(b"other weights")
    with pytest.raises(DataError, match="SHA-256"):
        LPIPS.load(tmp_path, CPU)
