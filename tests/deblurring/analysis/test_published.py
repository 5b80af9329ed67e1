from __future__ import annotations

import pytest

from vrtspike.deblurring.analysis.published import (
    PublishedFigure,
    read_published_figures,
    require_published_weights,
)
from vrtspike.deblurring.evaluation.protocols import PROTOCOLS
from vrtspike.deblurring.settings import Settings
from vrtspike.system.errors import ConfigError


def test_every_published_row_has_a_source_and_a_known_protocol():
    rows = read_published_figures().set_index("model")
    assert rows[["source", "protocol", "inputs"]].notna().all(axis=None)
    assert set(rows["protocol"]) <= {*PROTOCOLS, "unknown"} - {"own"}


@pytest.mark.parametrize(
    ("found", "within"), [(34.795, True), (34.825, True), (34.785, False), (34.84, False)]
)
def test_the_limit_of_a_reproduction(found, within):
    expected = PublishedFigure(34.81, 11, 1111, 0.02)
    assert expected.is_found(found) is within
    assert ("within the limit of 0.02 dB" in expected.verdict(found)) is within


@pytest.mark.parametrize("path", [None, "weights/absent.pth"])
def test_weights_that_are_missing_are_named_with_their_place(path):
    settings = Settings.model_validate({"MODEL": {"VRT": {"PRETRAINED": path}}})
    with pytest.raises(ConfigError, match=r"no such file: .* 006_VRT.*releases.*DATA\.ROOT"):
        require_published_weights(settings)
