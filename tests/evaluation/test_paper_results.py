"""Published results: sources, protocols and tolerances of a reproduction."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.evaluation.paper_results import (
    OTHER,
    PAPER_RESULTS_FILE,
    PaperResult,
    read_paper_results,
    require_published_weights,
)
from vrtspike.evaluation.protocols import PROTOCOLS
from vrtspike.system.errors import ConfigError

ADDRESS = r"https://\S+\.\S+/\S+"
SEEN = r"(read in|quoted|not found in) .{10,}"


def test_each_published_row_has_its_source_and_measurement():
    rows = pd.read_csv(PAPER_RESULTS_FILE).set_index("model")
    assert rows.index.is_unique
    assert rows[["source", "inputs", "dataset", "psnr"]].notna().all(axis=None)
    assert set(rows["protocol"]) <= {*PROTOCOLS, OTHER} - {"own"}
    for column, expected in {"url": ADDRESS, "measured": r".{40,}", "seen": SEEN}.items():
        wrong = [
            name
            for name, text in rows[column].fillna("").items()
            if not re.fullmatch(expected, text)
        ]
        assert wrong == [], f"{column}: {wrong}"


def test_results_of_basicsr_were_measured_as_the_protocol_measures():
    rows = read_paper_results().set_index("model")
    of_basicsr = rows[rows["protocol"] == "basicsr"]
    assert set(of_basicsr.index) == {"NAFNet, width 32", "NAFNet, width 64"}
    protocol = PROTOCOLS["basicsr"]
    details = [f"`{protocol.blur_dir}`", "whole frames", "8-bit RGB", f"mean over {protocol.mean}"]
    details.append("Gaussian SSIM over height, width and channel")
    for model, text in of_basicsr["measured"].items():
        assert [detail for detail in details if detail not in text] == [], model
    # What is not known of EFNet's measurement forbids any protocol.
    assert rows.loc["EFNet", "protocol"] == OTHER
    assert "not known" in rows.loc["EFNet", "measured"]


def test_a_row_of_the_leaderboard_has_address_protocol_and_origin():
    row = read_paper_results().set_index("model").loc["S-SDM (LDN)"]
    assert row["source"].endswith("NeurIPS 2024, https://arxiv.org/abs/2403.09486")
    assert "trains on the test frames" in row["note"]
    assert row["note"].endswith("Result: read in log/Deblur/test_log.txt of the repository")


@pytest.mark.parametrize(
    ("psnr", "text"),
    [
        (34.79, "-0.020 dB is within 0.02 dB"),
        (34.83, "+0.020 dB is within 0.02 dB"),
        (34.789, "-0.021 dB is beyond 0.02 dB"),
        (34.834, "+0.024 dB is beyond 0.02 dB"),
    ],
)
def test_the_tolerance_of_a_reproduction(psnr, text):
    expected = PaperResult(34.81, 11, 1111, 0.02)
    assert expected.is_reproduced_by(psnr) is ("within" in text)
    assert expected.comparison_text(psnr).endswith(f": the difference of {text}")


@pytest.mark.parametrize("path", [None, "weights/absent.pth"])
def test_missing_weights_are_named_with_their_place(path):
    settings = DeblurringSettings.model_validate({"MODEL": {"VRT": {"PRETRAINED": path}}})
    with pytest.raises(ConfigError, match=r"no such file: .* 006_VRT.*releases.*DATA\.ROOT"):
        require_published_weights(settings)
