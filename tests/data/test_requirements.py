from __future__ import annotations

import pytest

from vrtspike.config import Settings
from vrtspike.data.requirements import require_spikes
from vrtspike.errors import ConfigError


def test_only_a_model_with_spikes_needs_them():
    with_spikes = Settings()
    without = Settings.model_validate({"MODEL": {"USE_SPIKE": False}})
    require_spikes("here", True, with_spikes)
    require_spikes("here", True, without)
    require_spikes("here", False, without)
    with pytest.raises(ConfigError, match=r"here: no .* Set MODEL\.USE_SPIKE to false") as caught:
        require_spikes("here", False, with_spikes)
    assert "config/examples/high_frame_rate.yaml" in str(caught.value)
