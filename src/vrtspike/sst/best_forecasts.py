"""The best possible forecasts of generated data, on the cells of a data set."""

from __future__ import annotations

import numpy as np
import xarray

from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.generate import Globe


def best_possible_forecasts(globe: Globe, dataset: ERA5SSTMonthlyDataset) -> xarray.DataArray:
    """Compute the expectation of each month that a data set forecasts, given all before.

    Args:
        globe: the globe that the data set was made from.
        dataset: samples that are forecast.

    Returns:
        (time, lead, row, column) anomalies in kelvin from the climatology of the data set; 0 on
        land. ``time`` is the number of the last month that is read, ``lead`` the months ahead.
    """
    store = dataset.store
    starts = xarray.DataArray(dataset.last_months, dims="time")
    places = np.isin(globe.months, dataset.last_months)
    forecasts = []
    for lead in range(dataset.offset + 1, dataset.offset + dataset.lead + 1):
        kelvin = np.where(globe.land(), np.nan, globe.best_forecast(lead))[places]
        axes = {
            "time": dataset.last_months,
            "latitude": globe.latitudes,
            "longitude": globe.longitudes,
        }
        cells = store.grid.means(xarray.DataArray(kelvin, axes, [*axes]), "generated globe")
        climatology = store.of_month("climatology", starts + lead)
        anomaly = (cells - climatology).fillna(0)
        forecasts.append(anomaly.expand_dims(lead=[lead], axis=1))
    return xarray.concat(forecasts, "lead").transpose("time", "lead", ...)
