"""A request to restore a clip into a folder, checked and with its inputs opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vrtspike.restoration.folder.request import Request
from vrtspike.restoration.folder.result_record import (
    PAGE,
    PAGE_PICTURES,
    RESTORED,
    RESULT_PATHS,
    SIDE_BY_SIDE,
    VIDEO,
)
from vrtspike.restoration.inputs.clip_frames import (
    FolderPictures,
    Pictures,
    picture_files,
    require_size,
)
from vrtspike.restoration.inputs.given_clip import GivenClip, open_clip
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import ConfigError, DataError, list_faults


@dataclass(frozen=True)
class RestoreJob:
    """A request whose inputs were opened.

    Attributes:
        request: inputs and options.
        source: blurry frames and spikes.
        sharp: the sharp frames, if there are any to compare with.
    """

    request: Request
    source: GivenClip
    sharp: Pictures | None

    @property
    def files(self) -> list[Path]:
        """Paths of the restored frames."""
        return [self.request.output / RESTORED / f"{name}.png" for name in self.source.names]

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


def open_request(run: RunIdentity, request: Request) -> RestoreJob:
    """Check a request and open its inputs; neither the model nor PyTorch is needed.

    Args:
        run: run that trained the model.
        request: inputs and options.

    Raises:
        ConfigError: if the output is no folder, an input lies at the place of results, or the
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
    return RestoreJob(request, source, _open_sharp(request.sharp, source))


def _open_sharp(folder: Path | None, source: GivenClip) -> Pictures | None:
    """Return the sharp frames of the blurry ones.

    Raises:
        DataError: naming the frames without one, or if they have another size.
    """
    if folder is None:
        return None
    by_name = {path.stem: path for path in picture_files(folder)}
    missing = [name for name in source.names if name not in by_name]
    if missing:
        title = f"{folder}: frames without a sharp one"
        raise DataError(list_faults(title, missing, "Name it as the blurry frame.", limit=10))
    sharp = FolderPictures(folder, [by_name[name] for name in source.names])
    require_size(sharp.describe(0), sharp.frame(0), source.size)
    return sharp
