"""The one definition of a preset of deblurring: every key, its type, range, default, meaning.

Attribute names are the keys of the YAML files. ``config/README.md`` and ``config/schema.json`` are
generated from here and the other modules of this package (``scripts/config_reference.py``), and a
test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import model_validator

from vrtspike.config.ablations import Ablation, Variant
from vrtspike.config.deprecated_keys import DeprecatedKeys
from vrtspike.config.fields import NormalizedPath, Section, key, operational
from vrtspike.config.loading import load_preset
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.yaml_documents import Document, KeyPath
from vrtspike.deblurring_settings.data import ROOT_KEYS, DataSettings
from vrtspike.deblurring_settings.deprecated_keys import DEPRECATED_KEYS
from vrtspike.deblurring_settings.evaluation import EvaluationSettings
from vrtspike.deblurring_settings.losses import LossSettings
from vrtspike.deblurring_settings.model import ModelSettings, read_vrt_arguments
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.deblurring_settings.train import DeblurringTrainSettings
from vrtspike.deblurring_settings.workflow_settings import DeblurringWorkflowSettings
from vrtspike.io.files import json_digest
from vrtspike.system.errors import ConfigError

ABLATION = Ablation(
    title="What the spikes are worth",
    label="spikes",
    phrase="with them",
    note=(
        "The three models of a preset have the same data, seed and settings. 'Without spikes' is "
        "the backbone alone. With 'shuffled spikes' every frame gets the spikes of another frame "
        "of its clip, or of the frame before or after (DATA.NEIGHBOURS): as many parameters and "
        "the same spikes, but nothing tells which belong to which frame. 'difference' is by how "
        "much a model is better than that with spikes."
    ),
    needs={"MODEL.USE_SPIKE": True, "MODEL.SPIKE_ORDER": "recorded"},
    variants=(
        Variant(
            "without spikes", "-without-spikes", "MODEL.USE_SPIKE=false", phrase="without spikes"
        ),
        Variant(
            "shuffled spikes",
            "-shuffled-spikes",
            "MODEL.SPIKE_ORDER=shuffled",
            phrase="with shuffled spikes",
            no_worse="This model makes no use of which spikes belong to which frame.",
        ),
    ),
)
"""The ablation of the spikes."""


class WeightsSettings(Section):
    """Pretrained backbones for perceptual terms and LPIPS."""

    DIR: NormalizedPath = operational(
        "Folder of the backbone weights, verified by sha256", "weights"
    )


VALIDATION_METRICS = ("psnr", "ssim")
"""Metrics of every validation; the first is the main one, which selects the best weights."""


_MIN_TRAINED_FRAMES = 3
"""Frames of the shortest training clips without neighbours: two frames can only be swapped, an
order that a model learns as easily as the recorded one."""
_MIN_RESTORED_FRAMES = 2
"""Frames of the shortest temporal window of a restoration."""


class DeblurringSettings(RunSettings):
    """All settings of a preset of deblurring."""

    deprecated_keys: ClassVar[DeprecatedKeys] = DEPRECATED_KEYS
    ablation: ClassVar[Ablation | None] = ABLATION
    workflow_section: ClassVar[type[Section]] = DeblurringWorkflowSettings
    included_files: ClassVar[Mapping[KeyPath, Callable[[Path], Document]]] = {
        ("MODEL", "VRT_CFG"): read_vrt_arguments
    }
    root_keys: ClassVar[Mapping[tuple[str, str], frozenset[tuple[str, str]]]] = ROOT_KEYS
    watchable_metrics: ClassVar[tuple[str, ...] | None] = VALIDATION_METRICS

    TRAIN: DeblurringTrainSettings = key("Training", DeblurringTrainSettings())
    DATA: DataSettings = key("Data", DataSettings())
    MODEL: ModelSettings = key("Model", ModelSettings())
    LOSS: LossSettings = key("Loss", LossSettings())
    TEST: EvaluationSettings = key("Evaluation", EvaluationSettings())
    WEIGHTS: WeightsSettings = key("Pretrained backbones", WeightsSettings())

    @classmethod
    def preset_defaults(cls, workflow: DeblurringWorkflowSettings) -> dict[str, Any]:
        """Return ``DATA`` of ``config/config.yaml``; without ROOT it describes the default one."""
        return {"DATA": {"ROOT": cls().DATA.ROOT, **workflow.DATA}}

    @property
    def dataset_name(self) -> str:
        """Name of the data set as this preset uses it: that of its folder, with suffixes."""
        data = self.DATA
        folder = Path(data.ROOT).resolve().name
        name = re.sub(r"[^A-Za-z0-9_.]+", "_", folder).strip("._") or "data"
        if not folder.isascii():
            name += f"_{json_digest(folder)[:6]}"  # other folders may have the same name otherwise
        if data.BLUR_DIR != "blur":
            name += f"-{data.BLUR_DIR}"
        if data.ON_ERROR != "stop":
            name += f"-{data.ON_ERROR}"
        name += StoreOptions.from_settings(data).suffix
        if data.TEST_ON_TRAINING_FRAMES:
            name += "-test_on_training"
        return name

    @property
    def inactive_keys(self) -> frozenset[tuple[str, str]]:
        """Those of any task, and the keys of losses that are off."""
        names = type(self.LOSS).model_fields
        off = {("LOSS", name) for name in names if name not in self.LOSS.active}
        return super().inactive_keys | off

    @property
    def validation_on_test_key(self) -> str:
        """Value of DATA.VALIDATION if it is the test split; else empty."""
        return "DATA.VALIDATION is test" if self.DATA.VALIDATION == "test" else ""

    @property
    def cache_key(self) -> str:
        """The key with the size of the cache of decoded chunks of the stores."""
        return "DATA.CACHE_SIZE_GB" if self.DATA.USE_RAM_CACHE else ""

    @property
    def memory_saving_changes(self) -> list[str]:
        """Changes of keys that save device memory: of training, of the network, of the data."""
        changes = super().memory_saving_changes
        off = [key for key in self.MODEL.network.recompute_keys if not self.value(key)]
        if off:
            changes.append(f"set {' and '.join(off)} to true")
        if self.DATA.CLIP_LEN > 1:
            changes.append("lower DATA.CROP_SIZE or DATA.CLIP_LEN")
        else:
            changes.append("lower DATA.CROP_SIZE")
        return changes

    def training_faults(self) -> list[str]:
        """Return faults that training rejects: those of any task, and of the loss."""
        faults = super().training_faults()
        terms = self.LOSS.active.values()
        for term in terms:
            faults += term.faults
        if self.TRAIN.DISTILL is None and not any(term.is_in_every_step for term in terms):
            faults.append("LOSS: found EVERY above 1 in all terms, expected one of every step")
        return faults

    @model_validator(mode="after")
    def _neighbors_have_as_many_bins(self) -> Self:
        neighbor_bins = self.MODEL.NAF.NEIGHBOUR_BINS
        bins = self.DATA.NUM_VOXEL_BINS
        if self.MODEL.TYPE == "spike_nafnet" and neighbor_bins > bins:
            raise ValueError(
                f"MODEL.NAF.NEIGHBOUR_BINS is {neighbor_bins}; expected at most "
                f"DATA.NUM_VOXEL_BINS ({bins}): lower it, or raise that"
            )
        return self

    @model_validator(mode="after")
    def _model_takes_neighbors(self) -> Self:
        if self.DATA.NEIGHBOURS and not self.MODEL.network.takes_neighbors:
            raise ValueError(
                f"DATA.NEIGHBOURS is true and MODEL.TYPE is {self.MODEL.TYPE}; expected "
                "spike_nafnet, which alone looks at spikes beside a clip: set DATA.NEIGHBOURS to "
                "false and raise DATA.CLIP_LEN"
            )
        return self

    @model_validator(mode="after")
    def _other_spikes_are_those_of_other_frames(self) -> Self:
        if self.MODEL.shuffles_spikes:
            _require_other_spikes(self.DATA, self.TEST)
        return self


def _require_other_spikes(data: DataSettings, test: EvaluationSettings) -> None:
    """Reject clips in which a frame could get no spikes but those of its own exposure.

    Raises:
        ValueError: naming the keys.
    """
    if data.CONTEXT_STEPS:
        raise ValueError(
            f"MODEL.SPIKE_ORDER is shuffled and DATA.CONTEXT_STEPS is {data.CONTEXT_STEPS}; "
            "expected 0, because the spikes of another frame would include some of the frame's own "
            "exposure: set DATA.CONTEXT_STEPS to 0 in all models that you compare"
        )
    if not data.NEIGHBOURS:
        _require_frames("DATA.CLIP_LEN", data.CLIP_LEN, _MIN_TRAINED_FRAMES)
    window = test.TILE.FRAMES or data.CLIP_LEN
    _require_frames("TEST.TILE.FRAMES (null: DATA.CLIP_LEN)", window, _MIN_RESTORED_FRAMES)


def _require_frames(name: str, frames: int, min_frames: int) -> None:
    """Reject clips without other frames whose spikes a frame could get.

    Raises:
        ValueError: naming the key.
    """
    if frames < min_frames:
        raise ValueError(
            f"MODEL.SPIKE_ORDER is shuffled and {name} is {frames}; expected {min_frames} or "
            f"more, so that there are other frames' spikes to give: raise {name}, or set "
            "MODEL.SPIKE_ORDER to recorded"
        )


def require_deblurring_settings(settings: RunSettings, name: str = "") -> DeblurringSettings:
    """Return these settings if they are a preset of deblurring.

    Args:
        settings: settings of any task.
        name: name of the preset, for the message.

    Raises:
        ConfigError: if they are of another task.
    """
    if not isinstance(settings, DeblurringSettings):
        prefix = f"preset {name}: " if name else ""
        raise ConfigError(
            f"{prefix}TASK is {settings.TASK}; expected deblurring: name a preset of deblurring, "
            "or a run of one"
        )
    return settings


def load_deblurring_preset(path: str | Path, overrides: Sequence[str] = ()) -> DeblurringSettings:
    """Load a preset of deblurring, as :func:`vrtspike.config.loading.load_preset` does.

    Raises:
        ConfigError: if the preset is wrong, or is one of another task.
    """
    return require_deblurring_settings(load_preset(path, overrides), Path(path).stem)
