"""What a layout can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles


@dataclass(frozen=True)
class Places:
    """Where the parts of a sequence are expected, as patterns of files, for messages.

    Attributes:
        blur: the blurry frames, such as ``train/GOPR0372/blur/*.png``.
        sharp: the sharp frames.
        spikes: the spikes of each frame.
        stream: the spikes of the whole sequence, the other way to have them.
    """

    blur: str
    sharp: str
    spikes: str
    stream: str


class Layout(Protocol):
    """One way to lay out a data set; paths are relative to its root, POSIX style."""

    @property
    def name(self) -> str:
        """What DATA.LAYOUT and manifests call it."""

    @property
    def used_by(self) -> str:
        """Who publishes data in this layout."""

    def recognises(self, root: Path, split: str) -> bool:
        """Whether the folders of a split look like this layout.

        Raises:
            DataError: if a folder cannot be looked at.
        """

    def sequence_names(self, root: Path, split: str) -> list[str]:
        """Sequences of a split, sorted; hidden folders and stray files do not count.

        What has only some of its parts is a sequence, too: that the others are missing is a fault.

        Raises:
            DataError: if a folder cannot be listed.
        """

    def find(self, root: Path, split: str, name: str, blur_dir: str) -> SequenceFiles:
        """List the files of one sequence.

        Args:
            root: the data set's folder.
            split: which split.
            name: of the sequence.
            blur_dir: which blurry frames, ``blur`` or ``blur_gamma``.

        Raises:
            DataError: if none of the sequence's folders exists, or one cannot be listed.
        """

    def places(self, split: str, name: str, blur_dir: str) -> Places:
        """Where the parts of a sequence are expected; arguments as for :meth:`find`."""


def advice(layout: Layout, blur_dir: str) -> str:
    """What someone must know whose data set could not be used."""
    places = layout.places("<split>", "<sequence>", blur_dir)
    return (
        f"Expected in the layout {layout.name} ({layout.used_by}): {places.blur}, {places.sharp} "
        f"and, where there are spikes, {places.spikes} or {places.stream}."
    )
