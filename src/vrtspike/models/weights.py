"""Earlier name of :mod:`vrtspike.models.vrt_checkpoints`, from which programs may import."""

from vrtspike.models.vrt_checkpoints import load_vrt as load_vrt
