"""The presets' settings, also for a machine that cannot read YAML files.

``benchmarks/presets.json`` holds of every preset, with defaults filled in, what a step needs. It is
written from ``config/presets``, and a test holds them together:

    python benchmarks/preset_values.py
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vrtspike.io.files import read_json, write_json
from vrtspike.system import cli

REPOSITORY = Path(__file__).resolve().parent.parent
FILE = Path(__file__).with_name("presets.json")
# What a step needs to know of each section; all of MODEL.
KEYS: dict[str, Any] = {
    "DATA": {"CROP_SIZE", "CLIP_LEN", "NUM_VOXEL_BINS"},
    "MODEL": ...,
    "TRAIN": {
        "BATCH_SIZE": ...,
        "GRADIENT_ACCUMULATION_STEPS": ...,
        "PRECISION": ...,
        "OPTIM": {"TYPE"},
        "PROGRESSIVE": ...,
    },
}
# What reads and checks a preset.
READERS = ("pydantic", "ruamel")


def load(name: str, overrides: Sequence[str] = ()) -> Any:  # noqa: ANN401 - Settings, or the like
    """A preset's settings, checked where what checks them is installed.

    Args:
        name: of the preset.
        overrides: such as ``MODEL.VRT.ATTENTION=sdpa``.

    Returns:
        ``Settings``, or an object with the same sections and keys as far as a model needs them.
    """
    if any(find_spec(package) is None for package in READERS):
        return from_file(name, overrides)
    from vrtspike.deblurring.settings.schema import load_video_preset

    return load_video_preset(REPOSITORY / f"config/presets/{name}.yaml", overrides)


def from_file(name: str, overrides: Sequence[str] = ()) -> SimpleNamespace:
    """The settings that the file holds.

    Raises:
        KeyError: an override names no key of the preset.
    """
    sections = read_json(FILE)[name]
    for override in overrides:
        path, _, value = override.partition("=")
        *parents, key = path.split(".")
        section = sections
        for parent in parents:
            section = section[parent]
        if key not in section:
            raise KeyError(path)
        section[key] = {"true": True, "false": False}.get(value, value)
    found: SimpleNamespace = _namespace(sections)
    return found


def _namespace(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return SimpleNamespace(**{key: _namespace(part) for key, part in value.items()})
    return tuple(map(_namespace, value)) if isinstance(value, list) else value


def values() -> dict[str, Any]:
    """What the file has to hold: by preset its sections, and the window as three numbers."""
    from vrtspike.config.loading import load_preset
    from vrtspike.deblurring.settings import Settings

    found = {}
    for file in sorted((REPOSITORY / "config/presets").glob("*.yaml")):
        settings = load_preset(file)
        if not isinstance(settings, Settings):
            continue
        sections = settings.model_dump(mode="json", include=KEYS)
        sections["MODEL"]["window"] = list(settings.MODEL.window)
        found[file.stem] = sections
    return found


def main() -> None:
    """Write the file."""
    write_json(FILE, values())
    print(f"written: {FILE}")


if __name__ == "__main__":
    cli.run(main)
