"""VRT's own arguments, from the file that ``MODEL.VRT_CFG`` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vrtspike.config.aliases import KeyPath
from vrtspike.config.merging import overlay
from vrtspike.config.reading import Document, read_yaml
from vrtspike.errors import ConfigError

_VRT_ARGUMENTS = {
    "embed_dims": ("MODEL", "VRT", "EMBED_DIMS"),
    "num_heads": ("MODEL", "VRT", "NUM_HEADS"),
    "mlp_ratio": ("MODEL", "VRT", "MLP_RATIO"),
    "mul_attn_ratio": ("MODEL", "VRT", "MUL_ATTN_RATIO"),
    "drop_path_rate": ("MODEL", "VRT", "DROP_PATH_RATE"),
    "pa_frames": ("MODEL", "VRT", "PA_FRAMES"),
    "deformable_groups": ("MODEL", "VRT", "DEFORMABLE_GROUPS"),
    "indep_reconsts": ("MODEL", "VRT", "INDEP_RECONSTS"),
    "use_checkpoint_attn": ("MODEL", "VRT", "USE_CHECKPOINT_ATTN"),
    "use_checkpoint_ffn": ("MODEL", "VRT", "USE_CHECKPOINT_FFN"),
    "depths": ("MODEL", "VRT_DEPTHS"),
    "window_size": ("MODEL", "WINDOW_SIZE"),
}


def with_vrt_arguments(document: Document) -> Document:
    """Lay the arguments of the file named by MODEL.VRT_CFG beneath the document.

    Raises:
        ConfigError: if the file cannot be read, or has an argument that VRT has not.
    """
    model = document.tree.get("MODEL")
    name = model.get("VRT_CFG") if isinstance(model, dict) else None
    if not isinstance(name, str) or not Path(name).is_file():
        return document  # a missing file is refused by check_files, before a run starts
    arguments = read_yaml(name)
    result = Document({})
    for key, value in arguments.tree.items():
        place = arguments.places[(key,)]
        if key not in _VRT_ARGUMENTS:
            raise ConfigError(
                f"{place}: unknown argument {key}; known: {', '.join(sorted(_VRT_ARGUMENTS))}"
            )
        result = overlay(result, _nested(_VRT_ARGUMENTS[key], value, place))
    return overlay(result, document)


def _nested(path: KeyPath, value: Any, place: str) -> Document:  # noqa: ANN401 - a YAML value
    tree = value
    for key in reversed(path):
        tree = {str(key): tree}
    return Document(tree, {path: place})
