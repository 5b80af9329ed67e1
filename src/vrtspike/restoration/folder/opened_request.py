"""A request to restore a clip into a folder, checked and with its inputs opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vrtspike.restoration.folder.record import (
    PAGE,
    PAGE_PICTURES,
    RESTORED,
    RESULT_PATHS,
    SIDE_BY_SIDE,
    VIDEO,
)
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.restoration.inputs.clip_frames import (
    ClipFrames,
    FolderFrames,
    require_size,
    sharp_files,
)
from vrtspike.restoration.inputs.input_clip import InputClip, open_clip
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import ConfigError


@dataclass(frozen=True)
class RestoredClip:
    """A clip with its restored frames on disk.

    Attributes:
        source: blurry frames and spikes.
        sharp: the sharp frames, if any.
        files: the restored frames.
        with_spikes: compare with the spikes.
    """

    source: InputClip
    sharp: ClipFrames | None
    files: Sequence[Path]
    with_spikes: bool


@dataclass(frozen=True)
class OpenedRequest:
    """A request whose inputs were opened.

    Attributes:
        request: inputs and options.
        source: blurry frames and spikes.
        sharp: the sharp frames, if there are any to compare with.
    """

    request: RestoreRequest
    source: InputClip
    sharp: ClipFrames | None

    @property
    def files(self) -> list[Path]:
        """Paths of the restored frames."""
        return [self.request.output / RESTORED / f"{name}.png" for name in self.source.names]

    def restored_clip(self, *, with_spikes: bool) -> RestoredClip:
        """Return the clip with its restored frames, after these were written."""
        return RestoredClip(self.source, self.sharp, self.files, with_spikes)

    @property
    def results(self) -> list[str]:
        """Files to write beside the record, relative to the output folder."""
        names = [f"{RESTORED}/{name}.png" for name in self.source.names]
        if self.request.video:
            names.append(VIDEO)
        if self.request.side_by_side:
            names.append(SIDE_BY_SIDE)
        if self.request.page:
            # The page may contain its pictures instead.
            names += [PAGE, PAGE_PICTURES]
        return names


def open_request(run: RunIdentity, request: RestoreRequest) -> OpenedRequest:
    """Check a request and open its inputs; neither the model nor PyTorch is needed.

    Args:
        run: run that trained the model.
        request: inputs and options.

    Raises:
        ConfigError: if the output is not a folder, an input lies at the place of results, or the
            model takes other spikes.
        DataError: if an input cannot be used.
    """
    output = request.output
    if output.is_file() or output.suffix in (".png", ".mp4"):
        raise ConfigError(f"output: found {output}, expected a folder for frames and videos")
    results = [(output / name).resolve() for name in RESULT_PATHS]
    for path in (request.frames, request.spikes, request.sharp):
        if path is not None and any(path.resolve().is_relative_to(result) for result in results):
            raise ConfigError(
                f"{path}: lies where the results of {output} are written; give another folder for "
                "them"
            )
    source = open_clip(
        run,
        request.frames,
        request.spikes,
        simulate_spikes=request.simulate_spikes,
        sensor=request.sensor,
        layout=request.layout,
    )
    return OpenedRequest(request, source, _open_sharp(request.sharp, source))


def _open_sharp(folder: Path | None, source: InputClip) -> ClipFrames | None:
    """Return the sharp frames of the blurry ones.

    Raises:
        DataError: naming the frames without one, or if they have another size.
    """
    if folder is None:
        return None
    files = sharp_files(folder, source.names)
    sharp = FolderFrames(folder, list(files.values()))
    require_size(sharp.describe(0), sharp.frame(0), source.size)
    return sharp
