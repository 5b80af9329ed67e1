"""What validation and evaluation of forecasts measure."""

from __future__ import annotations

from vrtspike.metrics import Metric
from vrtspike.sst.names import CORRELATION, PERSISTENCE, RMSE

_RESULT = "forecast"

METRICS = {
    RMSE: Metric(
        RMSE,
        "RMSE",
        "root of the squared error in kelvin, its mean weighted by the area of sea",
        unit="K",
        decimals=3,
        larger_is_better=False,
        before=PERSISTENCE,
        after=_RESULT,
    ),
    CORRELATION: Metric(
        CORRELATION,
        "anomaly correlation",
        "forecast and observed anomalies in kelvin, weighted by the area of sea, not centred "
        "(Murphy and Epstein, 1989)",
        decimals=3,
        before=PERSISTENCE,
        after=_RESULT,
    ),
}
"""By name, the most important first."""
