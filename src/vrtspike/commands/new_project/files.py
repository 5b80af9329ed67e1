"""The files of a new project."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import vrtspike
from vrtspike.io.files import replaced_folder
from vrtspike.system.errors import RunError
from vrtspike.system.home import CONFIG, PRESET_DIR, SNAKEFILE, require_home
from vrtspike.workflow.project_version import MADE_WITH, version_record

_TEMPLATES = Path(__file__).parent
_PROFILES = Path("workflow/profiles")
_COPIED = ("README.md", "default/config.yaml", "slurm/config.yaml")
"""Profiles of the workflow that a project gets a copy of."""


@dataclass(frozen=True)
class ProjectData:
    """Keys of DATA that describe a project's data; None for those that are not set.

    Attributes:
        root: value of DATA.ROOT.
        layout: value of DATA.LAYOUT.
        spike_root: value of DATA.SPIKE_ROOT.
        spike_size: value of DATA.SPIKE_SIZE, rows and columns as in the spike files.
        validation: value of DATA.VALIDATION.
    """

    root: str = "data/gopro_spike"
    layout: str | None = None
    spike_root: str | None = None
    spike_size: tuple[int, int] | None = None
    validation: str | None = None


def require_free(folder: Path) -> None:
    """Reject a folder that a new project would overwrite.

    Raises:
        RunError: if it is a file, or not empty.
    """
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        raise RunError(
            f"{folder}: exists and is no empty folder; a new project overwrites nothing: name "
            "another folder"
        )


def write_project(folder: Path, data: ProjectData) -> None:
    """Write a new project, as a whole.

    Args:
        folder: folder of the project, absent or empty.
        data: the data that it trains on.

    Raises:
        RunError: see :func:`require_free`, or if the package was installed without the workflow.
    """
    require_free(folder)
    files = project_files(data)
    if not folder.is_dir():
        with replaced_folder(folder) as temporary:
            _write_files(temporary, files)
        return
    # Keep an empty folder instead of replacing it, because a shell may be in it.
    with TemporaryDirectory(dir=folder) as temporary:
        _write_files(Path(temporary), files)
        for path in Path(temporary).iterdir():
            path.rename(folder / path.name)


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder: their texts by name."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def project_files(data: ProjectData) -> dict[str, str]:
    """Return the files of a new project: their texts by name."""
    profiles = require_home() / _PROFILES
    files = {
        "README.md": _template("README.md"),
        ".gitignore": _template("gitignore"),
        str(SNAKEFILE): _template("Snakefile"),
        str(CONFIG): configuration(data),
        str(MADE_WITH): version_record(vrtspike.__version__),
        f"{PRESET_DIR}/README.md": _template("presets.md"),
    }
    for name in _COPIED:
        files[str(_PROFILES / name)] = (profiles / name).read_text(encoding="utf-8")
    return files


def configuration(data: ProjectData) -> str:
    """Return the text of ``config/config.yaml``; keys that are not set are comments."""
    return f"""\
# What to run here. Presets of your own go into {PRESET_DIR}/.

DATA:
  # The folder that holds the splits train and test.
  ROOT: {json.dumps(data.root, ensure_ascii=False)}
  # Names of folders and files; auto: found out.
{_entry("LAYOUT", data.layout, "auto")}
  # Folder of the spikes, if they lie under a root of their own.
{_entry("SPIKE_ROOT", data.spike_root, "/data/spikes")}
  # Rows and columns of the spike sensor, as in its files; none: found out.
{_entry("SPIKE_SIZE", data.spike_size, (250, 400))}
  # Sequences for validation: held_out, a tenth of the training sequences; or test.
{_entry("VALIDATION", data.validation, "held_out")}

# The presets that `all` and `report` cover; `snakemake --list` shows all targets.
PRESETS: [light]

# GPUs per training: auto (all free ones), a number, or 0 for the CPU.
GPUS: auto
"""


def _entry(key: str, value: object, example: object) -> str:
    """Return a line of DATA; a comment with an example for a key that is not set."""
    if value is None:
        return f"  # {key}: {json.dumps(example)}"
    return f"  {key}: {json.dumps(value, ensure_ascii=False)}"


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
