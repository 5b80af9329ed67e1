"""Names that presets may use: those of the registries."""

from __future__ import annotations

from typing import get_args

from vrtspike.data.data_source import AUTO
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.deblurring_settings.names import LayoutName, MetricName, ModelName
from vrtspike.metrics.registry import METRICS
from vrtspike.models.registry import MODELS


def test_presets_may_use_the_names_of_the_registries():
    assert set(get_args(LayoutName)) == {AUTO, *LAYOUTS}
    assert set(get_args(MetricName)) == set(METRICS)
    assert set(get_args(ModelName)) == set(MODELS)
