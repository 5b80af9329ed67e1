from __future__ import annotations

import pytest

from vrtspike.deblurring.evaluation.precision import require_precision
from vrtspike.errors import ConfigError


def test_what_a_device_cannot_compute_in_is_refused():
    for precision, device in (("float16", "cuda"), ("bfloat16", "cpu"), ("auto", "cpu")):
        require_precision(precision, device)
    for precision, device in (("float16", "cpu"), ("float64", "cuda")):
        with pytest.raises(ConfigError, match=f"precision: found {precision}"):
            require_precision(precision, device)
