"""The checkpoint that prepares the data of a preset, with the checks before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vrtspike.config.tasks import prepared_task
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.raw_data import RawData


class PreparedData(NamedTuple):
    """A job that writes the manifest of prepared data.

    Attributes:
        checkpoint: name of its checkpoint.
        wildcards: wildcards of the job.
    """

    checkpoint: str
    wildcards: Mapping[str, str | int]


def prepared_data(
    preset: str, deblurring: DeblurringWorkflow, raw_data: RawData, *, alone: bool
) -> PreparedData:
    """Find the job that prepares the data of a preset, and check raw data of the deblurring.

    Args:
        preset: name of the preset, of any task.
        deblurring: configuration with the data sets of deblurring.
        raw_data: raw data sets of the configuration.
        alone: see :meth:`DeblurringWorkflow.require_dataset`.

    Raises:
        UserError: if the preset is invalid or does not fit its data.
    """
    workflow = deblurring.workflow
    settings = workflow.preset(preset)
    if prepared_task(settings.TASK) is not None:
        return PreparedData("prepare", {"prepared": workflow.manifest(preset).parent.name})
    video = deblurring.preset(preset)
    raw_data.require_spikes(preset, video)
    raw_data.require_sequences_to_hold_out(preset, video)
    raw_data.note_own_data(preset)
    dataset = deblurring.require_dataset(preset, alone=alone)
    bins = video.DATA.NUM_VOXEL_BINS
    return PreparedData("statistics", {"dataset": dataset.name, "bins": bins})


def checked_files(
    presets: Iterable[str], deblurring: DeblurringWorkflow, raw_data: RawData, *, alone: bool
) -> list[str]:
    """Return the files that show the checked data of presets, each once.

    They are the table of alignments and the acceptance, or the manifest of prepared data.

    Args:
        presets: names of the presets, of any task.
        deblurring: configuration with the data sets of deblurring.
        raw_data: raw data sets of the configuration.
        alone: see :meth:`DeblurringWorkflow.require_dataset`.

    Raises:
        UserError: if a preset is invalid or does not fit its data.
    """
    files: dict[str, None] = {}
    for preset in presets:
        files |= dict.fromkeys(_checked_files(preset, deblurring, raw_data, alone))
    return list(files)


def _checked_files(
    preset: str, deblurring: DeblurringWorkflow, raw_data: RawData, alone: bool
) -> list[str]:
    """Return :func:`checked_files` of one preset."""
    workflow = deblurring.workflow
    if prepared_task(workflow.preset(preset).TASK) is not None:
        return [str(workflow.manifest(preset))]
    video = deblurring.preset(preset)
    raw_data.require_spikes(preset, video)
    folder = raw_data.folder(deblurring.require_dataset(preset, alone=alone))
    bins = video.DATA.NUM_VOXEL_BINS
    return [f"{folder}/alignment.csv", f"{folder}/k{bins}/accepted.json"]
