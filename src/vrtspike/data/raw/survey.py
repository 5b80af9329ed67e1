"""Survey of a data set: its sequences, and the faults that show without opening a file.

Like :mod:`vrtspike.data.raw.layouts` it looks at names only and stays within the
standard library, because the workflow imports it while it plans.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vrtspike.data.data_source import RawFolder
from vrtspike.data.manifests import SURVEY, Faults, Survey
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.folders import UNICODE_FORMS, find_other_case
from vrtspike.data.raw.layouts.layout import Layout, SequencePaths, layout_hint
from vrtspike.data.raw.layouts.registry import find_layout
from vrtspike.data.raw.nearby import other_roots, other_splits
from vrtspike.system.errors import DataError, is_text, list_faults, named_faults, printable

FORBIDDEN_CHARACTERS = frozenset("{}")
"""Characters that the name of a sequence may not contain."""
MAX_NAME_BYTES = 230
"""Maximum bytes in the name of a sequence; file systems take 255, and results have suffixes."""


def survey(folder: RawFolder, splits: Sequence[str]) -> Survey:
    """Return the survey of :func:`survey_files`, without the files."""
    result, _ = survey_files(folder, splits)
    return result


def survey_files(
    folder: RawFolder, splits: Sequence[str]
) -> tuple[Survey, dict[str, SequenceFiles]]:
    """Find all sequences of a data set, and set aside those with faults that names show.

    Faults are recorded, not raised, so that acceptance (:mod:`vrtspike.data.checks.accept`)
    can list them together with those that only the contents show.

    Args:
        folder: folder of the raw files.
        splits: names of the splits, folders of the root.

    Returns:
        the survey; ``excluded`` holds the faults of each sequence that is not among ``sequences``,
        by ``<split>/<name>``, and of each split without any sequence, by its name. Second, the
        files of each sequence whose folders can be listed, by ``<split>/<name>``.

    Raises:
        DataError: if the root is missing, or no sequence below it is without a fault.
    """
    _require_folders(folder, splits)
    search = _Search(folder, splits)
    for split in dict.fromkeys(splits):
        search.add_split(split)
    has_spikes = search.report_missing_spikes()
    sound = {name: files for name, files in search.files.items() if name not in search.excluded}
    if not sound:
        raise DataError(_rejection(search))
    layouts = {files.layout for files in sound.values()}
    result: Survey = {
        "schema": SURVEY.schema,
        "root": str(folder.root),
        "layout": "+".join(sorted(layouts)),
        "spikes": has_spikes,
        "sequences": [
            {"split": files.split, "name": files.name, "frames": len(files.blur)}
            for files in sound.values()
        ],
        "excluded": search.excluded,
    }
    if search.foreign:
        result["passed_over"] = sorted(search.foreign)
    return result, search.files


@dataclass
class _Search:
    """The sequences that a survey has found.

    Attributes:
        folder: folder of the raw files.
        splits: names of the splits.
        layouts: layouts by split.
        files: files of the sequences, by ``<split>/<name>``.
        excluded: faults, by ``<split>/<name>`` or split.
        foreign: folders that are passed over.
    """

    folder: RawFolder
    splits: Sequence[str]
    layouts: dict[str, Layout] = field(default_factory=dict)
    files: dict[str, SequenceFiles] = field(default_factory=dict)
    excluded: Faults = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)

    @property
    def root(self) -> Path:
        """The data set's folder."""
        return Path(self.folder.root)

    def add_split(self, split: str) -> None:
        """Find the sequences of a split, the name of a folder."""
        try:
            layout = find_layout(self.root, split, self.folder.layout, self.splits)
            _require_truth(layout, self.root)
            names, foreign = layout.sequence_names(self.root, split, self.folder.spike_root)
        except DataError as error:
            self.excluded[split] = [str(error)]
            return
        self.layouts[split] = layout
        self.foreign |= foreign
        if not names:
            paths = layout.sequence_paths(split, "<sequence>", self.folder.blur_dir)
            expected = f"{paths.sharp}*.png"
            hint = _split_hint(self.root, split, self.splits, self.folder.layout)
            self.excluded[split] = [f"no sequence folders; expected {self.root / expected}{hint}"]
        for twins in _look_alikes(names):
            names = [name for name in names if name not in twins]
            self.excluded[f"{split}/{twins[0]}"] = [f"found two folders of it{UNICODE_FORMS}"]
        for name in names:
            self._add_sequence(layout, split, name)

    def _add_sequence(self, layout: Layout, split: str, name: str) -> None:
        sequence = f"{split}/{printable(name)}"
        try:
            _require_usable(name)
            files = layout.find(self.folder, split, name)
        except DataError as error:
            self.excluded[sequence] = [str(error)]
            return
        self.files[sequence] = files
        faults = _file_faults(files, self._paths(files))
        if faults:
            self.excluded[sequence] = faults

    def _paths(self, files: SequenceFiles) -> SequencePaths:
        """Return the expected places of a sequence's files."""
        layout = self.layouts[files.split]
        return layout.sequence_paths(
            files.split, files.name, files.blur_dir, self.folder.spike_root
        )

    def report_missing_spikes(self) -> bool:
        """Exclude sequences without spikes if others have them, or if spikes are configured.

        Returns:
            true if the data set has spikes.
        """
        without = {name: files for name, files in self.files.items() if not files.has_spikes}
        if self.folder.spike_root is not None:
            reason = "DATA.SPIKE_ROOT is set"
        elif len(without) < len(self.files):
            reason = "other sequences have them"
        else:
            return False
        for sequence, files in without.items():
            patterns = self._paths(files).spike_patterns
            faults = self.excluded.setdefault(sequence, [])
            faults.append(f"no spikes ({patterns}, or .npz), but {reason}")
        return True


def _rejection(search: _Search) -> str:
    """Return the message on a data set without a valid sequence."""
    hints = []
    roots = other_roots(search.root, search.splits, search.folder.layout)
    if roots:
        names = " or ".join(map(str, roots))
        hints.append(f"Did you mean DATA.ROOT {names}, which holds such folders?")
    for layout in search.layouts.values():
        hint = layout_hint(layout, search.folder.blur_dir)
        if hint not in hints:
            hints.append(hint)
    hints.append("DATA.LAYOUT names another layout.")
    title = f"{search.root} cannot be used as it is"
    return list_faults(title, named_faults(search.excluded), " ".join(hints))


def _split_hint(root: Path, split: str, splits: Sequence[str], layout: str) -> str:
    """Return a clause on folders that an empty split may mean; empty without any."""
    misspelt = find_other_case(root, split)
    if misspelt:
        return f"; found the folder {misspelt}: rename it"
    others = other_splits(root, splits, layout)
    if not others:
        return ""
    is_trained = len(splits) > 1 and split == splits[0]
    name = "DATA.TRAIN_SPLIT" if is_trained else "DATA.TEST_SPLIT"
    return f"; found the split {' and '.join(others)}: set {name} to the one that is meant"


def _require_folders(folder: RawFolder, splits: Sequence[str]) -> None:
    """Reject roots that are not folders."""
    root = Path(folder.root)
    spike_root = folder.spike_root
    wanted = f"the folder that holds {' and '.join(splits)}"
    if not root.is_dir():
        state = "does not exist"
        if root.exists():
            state = "is a file (an archive has to be unpacked first)"
        raise DataError(f"data set folder {root} {state}; set DATA.ROOT to {wanted}")
    if spike_root is not None and not Path(spike_root).is_dir():
        raise DataError(
            f"folder of spikes {spike_root} does not exist; set DATA.SPIKE_ROOT to {wanted} with "
            "spike files, or to null where they lie beside the frames"
        )


def _require_truth(layout: Layout, root: Path) -> None:
    """Reject a set without sharp frames for training and evaluation."""
    if layout.sharp is None:
        raise DataError(
            f"{root}: the layout {layout.name} has no sharp frames, so nothing can be trained on "
            "it or measured against; its sequences can be restored and judged by: vrtspike restore "
            f"RUN {root / layout.blur.format(sequence='<sequence>')} --spikes "
            f"{root / str(layout.spike).format(sequence='<sequence>')} --layout {layout.name}"
        )


def _look_alikes(names: Sequence[str]) -> list[list[str]]:
    """Return groups of names that are the same text in different Unicode forms."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(unicodedata.normalize("NFC", name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _require_usable(name: str) -> None:
    """Reject names of sequences that manifests, results or the workflow do not support."""
    if not is_text(name):
        raise DataError("its name is not UTF-8; rename the sequence")
    if not FORBIDDEN_CHARACTERS.isdisjoint(name):
        raise DataError("the workflow takes { and } for placeholders; rename the sequence")
    length = len(name.encode())
    if length > MAX_NAME_BYTES:
        raise DataError(
            f"a name of {length} bytes, expected at most {MAX_NAME_BYTES}; rename the sequence"
        )


def _file_faults(files: SequenceFiles, paths: SequencePaths) -> list[str]:
    """Return faults of the files of a sequence: missing frames, and two kinds of spike files."""
    faults = list(files.faults)
    if not files.blur:
        faults.append(f"no blurry frames ({paths.blur}*.png)")
    if not files.sharp:
        faults.append(f"no sharp frames ({paths.sharp}*.png); vrtspike restore does without them")
    if files.spikes and files.stream:
        first = next(iter(files.spikes.values()))
        faults.append(f"both {first} and {files.stream}; remove the one not meant")
    return faults
