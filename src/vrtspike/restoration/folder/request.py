"""A request to restore a clip into a folder, and its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
class Request:
    """The inputs of a restoration and the files to write.

    Attributes:
        frames: a folder of pictures or a video file.
        output: folder for ``restored/<frame>.png``, ``restore.json`` and what follows.
        spikes: a folder or a file of recorded spikes; None for simulated ones, or none.
        simulate_spikes: simulate them from the blurry frames.
        sensor: rows and columns of recorded spikes; None as for
            :func:`~vrtspike.restoration.inputs.clip_spikes.recorded_spikes`.
        layout: name of the layout that gives exposures; None as for
            :func:`~vrtspike.restoration.inputs.given_clip.open_clip`.
        sharp: folder that holds sharp frames of the same names, to compare with.
        video: write ``restored.mp4``.
        side_by_side: write ``side_by_side.mp4``: blurry, restored, sharp if given.
        tile: largest side of a tile, 0 for whole frames; None fits it to the free memory.
        overwrite: remove the results that the record of an earlier call in ``output`` names.
        no_reference: metrics of pyiqa that need no sharp frame.
        page: name the page (:mod:`vrtspike.restoration.page.writing`) in the record.
        anyway: restore a recording far outside those that the model was trained on, too.
    """

    frames: Path
    output: Path
    spikes: Path | None = None
    simulate_spikes: bool = False
    sensor: tuple[int, int] | None = None
    layout: str | None = None
    sharp: Path | None = None
    video: bool = False
    side_by_side: bool = False
    tile: int | None = None
    overwrite: bool = False
    no_reference: Sequence[str] = ()
    page: bool = False
    anyway: bool = False

    def results(self, frames: Sequence[str]) -> list[str]:
        """Return the files to write beside the record, relative to the output folder.

        Args:
            frames: names of the frames.
        """
        names = [f"{RESTORED}/{name}.png" for name in frames]
        if self.video:
            names.append(VIDEO)
        if self.side_by_side:
            names.append(SIDE_BY_SIDE)
        if self.page:
            # The page may contain its pictures instead.
            names += [PAGE, PAGE_PICTURES]
        return names


def open_request(run: RunIdentity, request: Request) -> tuple[GivenClip, Pictures | None]:
    """Check a request and open its inputs; neither the model nor PyTorch is needed.

    Args:
        run: run that trained the model.
        request: the inputs and results.

    Returns:
        blurry frames and spikes, and the sharp frames if there are any to compare with.

    Raises:
        ConfigError: if the output is no folder, an input lies at the place of results, or the
            model takes other spikes.
        DataError: if an input cannot be used.
    """
    output = request.output
    if output.is_file() or output.suffix in (".png", ".mp4"):
        raise ConfigError(f"output: found {output}, expected a folder for frames and videos")
    for option in ("sensor", "layout"):
        if request.spikes is None and getattr(request, option) is not None:
            raise ConfigError(
                f"{option}: describes recorded spikes, and there are none: give them (spikes), or "
                f"leave {option} out; the simulated sensor has half the frames' size"
            )
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
    return source, _open_sharp(request.sharp, source)


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
