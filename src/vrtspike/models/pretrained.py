"""Start from the weights of the trained model that MODEL.PRETRAINED names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrtspike.io.weights import load_strictly, read_weights
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import pretrained_file
from vrtspike.runs.published import require_published
from vrtspike.settings.differences import differing_model_keys

if TYPE_CHECKING:
    from torch import nn

    from vrtspike.settings import Settings


def load_pretrained(model: nn.Module, settings: Settings) -> None:
    """Load the weights that MODEL.PRETRAINED names, every tensor or none.

    Args:
        model: model of the preset, changed in place.
        settings: settings of the preset.

    Raises:
        RunError: if the weights are missing or damaged, were changed since they were published, or
            a tensor is missing, unknown or has another shape.
    """
    source = settings.MODEL.PRETRAINED or ""
    path = pretrained_file(source)
    state = read_weights(path)
    require_published(path)
    differences = differing_model_keys(RunIdentity.read(path.parent).settings, settings)
    advice = "Name weights of this model, or give MODEL the sizes of that one"
    if differences:
        advice += f": {'; '.join(differences.values())}"
    load_strictly(model, state, f"MODEL.PRETRAINED {source}: weights of another model", advice)
