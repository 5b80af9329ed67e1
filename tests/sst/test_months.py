from __future__ import annotations

from vrtspike.sst.months import calendar_month, month_name, month_number


def test_months_can_be_counted():
    assert month_number(2001, 1) - month_number(2000, 1) == 12
    assert [calendar_month(month_number(1999, month)) for month in (1, 12)] == [0, 11]
    assert month_name(month_number(1980, 12) + 1) == "1981-01"
