"""Presets: a file, its parents, overrides, and one typed, frozen object."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vrtspike.config.aliases import KeyPath
from vrtspike.config.checking import validate
from vrtspike.config.merging import canonical, overlay, parse_overrides
from vrtspike.config.reading import Document, read_yaml
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.schema import Settings, deblurring_settings
from vrtspike.errors import ConfigError
from vrtspike.problems import DEFAULT, find_problem

BASE = "BASE"
"""The key that names a preset's parent; it stands in files only."""

_ADVICE = "Every key is explained in config/README.md."
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


def load_preset(path: str | Path, overrides: Sequence[str] = ()) -> RunSettings:
    """Load a preset file, its parents (``BASE``) and overrides such as ``TRAIN.BATCH_SIZE=2``.

    Raises:
        ConfigError: naming file, line, key, what was found and what is allowed.
    """
    return settings_from(overlay(read_preset(path), parse_overrides(overrides)))


def load_video_preset(path: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """:func:`load_preset` of a preset of the deblurring.

    Raises:
        ConfigError: likewise, or if it is one of another problem.
    """
    return deblurring_settings(load_preset(path, overrides), Path(path).stem)


def preset_base(path: str | Path) -> str | None:
    """The name that a preset file gives as its ``BASE``; None where it has none.

    Raises:
        ConfigError: if the file cannot be read.
    """
    base = canonical(read_yaml(path)).tree.get(BASE)
    return None if base is None else str(base)


def read_preset(path: str | Path) -> Document:
    """A preset and its parents as one document, not yet validated.

    ``BASE: name`` means ``name.yaml`` in the same folder.
    """
    path = Path(path)
    chain: list[Path] = []
    layers: list[Document] = []
    while True:
        if path in chain:
            names = " -> ".join(p.name for p in [*chain, path])
            raise ConfigError(f"{chain[0]}: BASE goes in a circle: {names}")
        chain.append(path)
        document = canonical(read_yaml(path))
        _require_base_spelled(document)
        base = document.tree.pop(BASE, None)
        layers.append(document)
        if base is None:
            break
        path = _parent(path, base, document.places[(BASE,)])
    result = Document({})
    for layer in reversed(layers):
        result = overlay(result, layer)
    return result


def _require_base_spelled(document: Document) -> None:
    """Refuse what was meant as ``BASE``: no schema knows that key, so none would suggest it."""
    known = [BASE, *settings_class(document).model_fields]
    for name in document.tree:
        meant = difflib.get_close_matches(name.upper(), known, n=1)
        if name not in known and meant == [BASE]:
            raise ConfigError(
                f"{document.places[(name,)]}: unknown key {name}; did you mean {BASE}?"
            )


def _parent(path: Path, base: object, place: str) -> Path:
    """The file of the preset that ``path`` names as its ``BASE``."""
    parent = path.parent / f"{base}.yaml"
    if isinstance(base, str) and parent.name == f"{base}.yaml" and parent.is_file():
        return parent
    names = sorted(other.stem for other in path.parent.glob("*.yaml") if other != path)
    near = difflib.get_close_matches(str(base).removesuffix(".yaml"), names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"presets there: {', '.join(names) or 'none'}"
    raise ConfigError(
        f"{place}: BASE is {base!r}, but there is no preset of that name in {path.parent}; {hint}"
    )


def settings_class(document: Document) -> type[RunSettings]:
    """The class of presets of the problem that a document names.

    Raises:
        ConfigError: if there is no such problem.
    """
    task = document.tree.get("TASK", DEFAULT)
    try:
        return find_problem(task).SETTINGS
    except ConfigError as error:
        raise ConfigError(f"{document.places.get(('TASK',), 'settings')}: {error}") from None


def settings_from(document: Document) -> RunSettings:
    """Validate a document as a preset, with VRT's own arguments and the old worker key put in."""
    document = _with_vrt_arguments(canonical(document))
    settings = validate(settings_class(document), document, _ADVICE)
    if settings.TRAIN.NUM_WORKERS is None:
        return settings
    if "DATALOADER" in document.tree:
        warnings.warn(
            "TRAIN.NUM_WORKERS is an old name and is ignored: DATALOADER is given.",
            DeprecationWarning,
            stacklevel=2,
        )
        return settings
    warnings.warn(
        "TRAIN.NUM_WORKERS is an old name; use DATALOADER.TRAIN_WORKERS.",
        DeprecationWarning,
        stacklevel=2,
    )
    loader = settings.DATALOADER.model_copy(update={"TRAIN_WORKERS": settings.TRAIN.NUM_WORKERS})
    return settings.model_copy(update={"DATALOADER": loader})


def missing_files(settings: RunSettings) -> dict[str, str]:
    """The paths that do not exist among the files a run would read, by the key that names them."""
    named = settings.named_files
    return {key: path for key, path in named.items() if path and not Path(path).is_file()}


def check_files(settings: RunSettings) -> None:
    """Refuse paths that do not exist among the files a run would read.

    Raises:
        ConfigError: naming the key and the path.
    """
    missing = [f"{key}: no such file: {path}" for key, path in missing_files(settings).items()]
    if missing:
        raise ConfigError("\n".join([*missing, "Give an existing file, or remove the key."]))


def _with_vrt_arguments(document: Document) -> Document:
    """Lay the arguments of the file named by MODEL.VRT_CFG beneath the document."""
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
