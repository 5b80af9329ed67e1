"""The registry of the models, and the building of a preset's model."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.differences import differing_model_keys
from vrtspike.deblurring_settings.model import ModelSettings
from vrtspike.deblurring_settings.names import ModelName
from vrtspike.io.weights import load_strictly, read_weights
from vrtspike.models.restorer import Restorer
from vrtspike.models.shuffled_spikes import ShuffledSpikes
from vrtspike.models.spike_nafnet import SpikeNAFNet
from vrtspike.models.vrt_spike import VRTSpike
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import pretrained_file
from vrtspike.runs.published import require_published
from vrtspike.system.errors import RunError

MODELS: dict[ModelName, Callable[[ModelSettings, int], Restorer]] = {
    "vrt_spike": VRTSpike,
    "spike_nafnet": SpikeNAFNet,
}
"""Classes of the networks by the value of MODEL.TYPE. They take the section MODEL and the number of
voxel bins of a frame, 0 for a model without spikes."""


def build_model(settings: DeblurringSettings, *, pretrained: bool = True) -> Restorer:
    """Build the network of a preset, named by MODEL.TYPE.

    Args:
        settings: settings of the preset.
        pretrained: load the weights that the settings start from; False if all weights are loaded
            afterwards.

    Returns:
        A module called as ``model(blur, voxels)``.

    Raises:
        RunError: a checkpoint is missing or belongs to another model.
    """
    bins = settings.DATA.NUM_VOXEL_BINS if settings.MODEL.USE_SPIKE else 0
    model = MODELS[settings.MODEL.TYPE](settings.MODEL, bins)
    if pretrained:
        model.load_published(settings.MODEL)
        if settings.MODEL.PRETRAINED is not None:
            _load_pretrained(model, settings.MODEL.PRETRAINED, settings)
    if settings.MODEL.shuffles_spikes:
        return ShuffledSpikes(
            model,
            bins=bins,
            neighbors=settings.DATA.NEIGHBOURS,
            one_by_one=settings.MODEL.network.takes_neighbors,
        )
    return model


def _load_pretrained(model: nn.Module, source: str, settings: DeblurringSettings) -> None:
    """Load the weights of a trained model, every tensor or none.

    Args:
        model: model of the preset, changed in place.
        source: MODEL.PRETRAINED.
        settings: settings of the preset.

    Raises:
        RunError: if the weights are missing or damaged, were changed since they were published, or
            a tensor is missing, unknown or has another shape.
    """
    path = pretrained_file(source)
    state = read_weights(path)
    require_published(path)
    trained = RunIdentity.read(path.parent).settings
    if not isinstance(trained, DeblurringSettings):
        raise RunError(
            f"MODEL.PRETRAINED {source}: a run of TASK {trained.TASK}, expected one of deblurring"
        )
    differences = differing_model_keys(trained, settings)
    advice = "Name weights of this model, or give MODEL the sizes of that one"
    if differences:
        advice += f": {'; '.join(differences.values())}"
    load_strictly(model, state, f"MODEL.PRETRAINED {source}: weights of another model", advice)
