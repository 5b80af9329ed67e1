"""The files of weights that a training of the deblurring, or an evaluation, reads."""

from __future__ import annotations

from pathlib import Path

from vrtspike.deblurring.settings import Settings
from vrtspike.pretrained import BACKBONES
from vrtspike.runs.names import WEIGHTS

TEACHER = "TRAIN.DISTILL.TEACHER"


def training_weights(settings: Settings) -> dict[str, Path]:
    """The files a training reads, by the key that asks for them."""
    vrt, distill = settings.MODEL.VRT, settings.TRAIN.DISTILL
    folder = Path(settings.WEIGHTS.DIR)
    found: dict[str, Path] = {}
    if vrt.PRETRAINED is not None:
        found["MODEL.VRT.PRETRAINED"] = Path(vrt.PRETRAINED)
    if vrt.SPYNET is not None:
        found["MODEL.VRT.SPYNET"] = Path(vrt.SPYNET)
    if distill is not None:
        found[TEACHER] = Path(distill.TEACHER) / WEIGHTS
    for name, term in settings.LOSS.active.items():
        if term.backbone is not None:
            found[f"LOSS.{name}"] = folder / BACKBONES[term.backbone]
    return found


def evaluation_weights(settings: Settings) -> dict[str, Path]:
    """The files an evaluation reads besides the trained weights, by the key that asks for them."""
    if "lpips" not in settings.TEST.METRICS:
        return {}
    return {"TEST.METRICS": Path(settings.WEIGHTS.DIR) / BACKBONES["alex"]}
