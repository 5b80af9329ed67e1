"""The table of the models.

``scripts/config_reference.py`` writes the names that MODEL.TYPE takes from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vrtspike.models.restorer import Restorer
from vrtspike.models.spike_nafnet import build_spike_nafnet
from vrtspike.models.start import load_start
from vrtspike.models.vrt_spike import build_vrt_spike

if TYPE_CHECKING:
    from vrtspike.settings import Settings

MODELS: dict[str, Callable[[Settings, bool], Restorer]] = {
    "vrt_spike": build_vrt_spike,
    "spike_nafnet": build_spike_nafnet,
}
"""By the values of MODEL.TYPE what builds the model of a preset, with the weights that its settings
start from if asked; it compiles itself, says how it computes and
names its groups of parameters (:class:`~vrtspike.models.restorer.Restorer`)."""


def build_model(settings: Settings, *, pretrained: bool = True) -> Restorer:
    """Build the network of a preset, which MODEL.TYPE names.

    Args:
        settings: of the preset.
        pretrained: load the weights that the settings start from; false where all weights are
            loaded afterwards.

    Returns:
        A module called as ``model(blur, voxels)``.

    Raises:
        RunError: a checkpoint is missing or belongs to another model.
    """
    model = MODELS[settings.MODEL.TYPE](settings, pretrained)
    if pretrained and settings.MODEL.PRETRAINED is not None:
        load_start(model, settings)
    return model
