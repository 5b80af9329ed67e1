"""Check that a preset fits the trained model that it starts from (MODEL.PRETRAINED)."""

from __future__ import annotations

from vrtspike.deblurring.trained_voxels import TrainedVoxels
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import pretrained_file
from vrtspike.settings import Settings
from vrtspike.settings.differences import differing_model_keys
from vrtspike.settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError

_NO_SHAPE = ("MODEL.TYPE", "MODEL.USE_SPIKE")
"""Keys of every model that change the network but not the shapes of its weights."""


def require_fitting_pretrained(settings: Settings) -> None:
    """Refuse a preset with another network than its start, or with other inputs.

    Shapes are compared when the weights are loaded.

    Raises:
        ConfigError: naming the keys and both values.
        RunError: if a file next to the weights is missing or damaged.
    """
    start = settings.MODEL.PRETRAINED
    if start is None:
        return
    folder = pretrained_file(start).parent
    run = RunIdentity.read(folder).settings
    if not isinstance(run, Settings):
        raise ConfigError(
            f"MODEL.PRETRAINED {start}: a run of TASK {run.TASK}, expected one of the deblurring"
        )
    faults = _network_faults(run, settings)
    if settings.MODEL.USE_SPIKE and run.MODEL.USE_SPIKE:
        norm = settings.DATA.NORM
        options = StoreOptions.of(settings.DATA)
        faults += TrainedVoxels.read(folder, run).differences(options, norm.MEAN, norm.STD)
    if faults:
        raise ConfigError(
            f"MODEL.PRETRAINED {start}: {'; '.join(faults)}. Set these keys to its values "
            "(null in DATA.NORM takes them), or name other weights"
        )


def _network_faults(start_settings: Settings, settings: Settings) -> list[str]:
    """Describe differing keys that make another network of equal shapes."""
    names = [*_NO_SHAPE, *settings.MODEL.network.keys_without_shape]
    differing = differing_model_keys(start_settings, settings)
    return [differing[name] for name in names if name in differing]
