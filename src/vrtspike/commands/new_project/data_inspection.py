"""A first look at a data set: its layout, its sensor, and the checks of one sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from vrtspike.commands.new_project.files import ProjectData
from vrtspike.data.checks.ingest import ingest_sequence
from vrtspike.data.data_source import RawFolder
from vrtspike.data.manifests import CheckedSequence, Survey, surveyed_sequences
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.nearby import spike_roots
from vrtspike.data.raw.survey import survey_files
from vrtspike.system.errors import named_faults

_SPLITS = ("train", "test")
_BLUR_DIR = "blur"
_MAX_FAULTS = 5
_VALIDATED_ON_TEST = (
    "A single training sequence cannot be divided: validation takes the test sequences "
    "(DATA.VALIDATION: test), so that their metrics are no test of the model. With more training "
    "sequences, remove this key."
)


def inspect_data(root: Path) -> tuple[ProjectData, list[str]]:
    """Survey a data set, and check its first sequence like the workflow.

    Spikes under a root of their own are found if there is one such root nearby.

    Args:
        root: the folder that holds the splits.

    Returns:
        keys of DATA, and the findings as lines for the terminal.

    Raises:
        DataError: if no sequence can be used.
    """
    root = root.absolute()
    spike_root = None
    result, files = _survey(root, None)
    if not result["spikes"]:
        first = result["sequences"][0]
        nearby = spike_roots(root, first["split"], first["name"])
        if len(nearby) == 1:
            spike_root = str(nearby[0])
            result, files = _survey(root, spike_root)
    manifest = ingest_sequence(root, files)
    layout = result["layout"] if result["layout"] in LAYOUTS else None
    sensor = manifest["spike_file"]
    size = (sensor["size"][0], sensor["size"][1]) if sensor else None
    lines = [*_survey_lines(root, result), *_sequence_lines(manifest)]
    validation = None
    trained = [entry for entry in result["sequences"] if entry["split"] == _SPLITS[0]]
    if len(trained) == 1:  # none can be held out
        validation = "test"
        lines.append(_VALIDATED_ON_TEST)
    return ProjectData(str(root), layout, spike_root, size, validation), lines


def _survey(root: Path, spike_root: str | None) -> tuple[Survey, SequenceFiles]:
    """Return the survey of a data set, and the files of its first sequence without faults."""
    result, files = survey_files(RawFolder(root, _BLUR_DIR, spike_root=spike_root), _SPLITS)
    return result, files[surveyed_sequences(result)[0]]


def _survey_lines(root: Path, result: Survey) -> list[str]:
    """Return the layout and number of the sequences, and faults that names show."""
    counts = Counter(sequence["split"] for sequence in result["sequences"])
    numbers = ", ".join(f"{count} in {split}" for split, count in sorted(counts.items()))
    spikes = "with spikes" if result["spikes"] else "without spikes"
    lines = [f"{root}: layout {result['layout']}, sequences {spikes}: {numbers}"]
    faults = named_faults(result["excluded"])
    lines += [f"  fault: {fault}" for fault in faults[:_MAX_FAULTS]]
    if len(faults) > _MAX_FAULTS:
        lines.append(f"  and {len(faults) - _MAX_FAULTS} more faults; a run lists them all")
    return lines


def _sequence_lines(manifest: CheckedSequence) -> list[str]:
    """Return the sizes and faults of a checked sequence."""
    name = f"{manifest['split']}/{manifest['sequence']}"
    sizes = f"frames {_size(manifest['rgb_size'])}"
    if manifest["spike_size"]:
        sizes += f", sensor {_size(manifest['spike_size'])}"
    lines = [f"{name}: {len(manifest['frames'])} frames can be used ({sizes})"]
    lines += [f"  fault: {fault}" for fault in manifest["faults"][:_MAX_FAULTS]]
    if not manifest["faults"]:
        lines.append("  no fault; a run checks the other sequences")
    return lines


def _size(size: Sequence[int] | None) -> str:
    return "of unknown size" if size is None else f"{size[0]} x {size[1]}"
