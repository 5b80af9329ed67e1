"""The data of the presets that targets need, checked as far as names and configuration show."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vrtspike.data.clips import requirements
from vrtspike.data.data_source import DataSource
from vrtspike.data.manifests import surveyed
from vrtspike.data.raw.nearby import spike_roots
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.raw_data import RawData


def statistics_wildcards(
    workflow: DeblurringWorkflow, raw_data: RawData, preset: str
) -> dict[str, str | int]:
    """Return the wildcards of the job that writes the manifest of a preset's data.

    Args:
        workflow: configuration with the presets.
        raw_data: the raw data sets.
        preset: name of a preset of deblurring.

    Raises:
        UserError: if the preset is invalid or does not fit its data.
    """
    require_spikes(workflow, raw_data, preset)
    require_sequences_to_hold_out(workflow, raw_data, preset)
    data_source = workflow.data_source(preset)
    return {"dataset": data_source.name, "bins": workflow.preset(preset).DATA.NUM_VOXEL_BINS}


def checked_files(
    workflow: DeblurringWorkflow,
    raw_data: RawData,
    presets: Iterable[str],
) -> list[str]:
    """Return the tables of alignments and the acceptances of the data of presets, each once.

    Args:
        workflow: configuration with the presets.
        raw_data: the raw data sets.
        presets: names of presets of deblurring.

    Raises:
        UserError: if a preset is invalid or needs spikes that its data do not have.
    """
    files: dict[str, None] = {}
    for preset in presets:
        require_spikes(workflow, raw_data, preset)
        data_source = workflow.data_source(preset)
        folder = workflow.data_folder(data_source.name)
        bins = workflow.preset(preset).DATA.NUM_VOXEL_BINS
        files[f"{folder}/alignment.csv"] = None
        files[f"{folder}/k{bins}/accepted.json"] = None
    return list(files)


def require_spikes(workflow: DeblurringWorkflow, raw_data: RawData, preset: str) -> None:
    """Reject a preset with spikes for a folder without them, judged by names.

    Raises:
        ConfigError: naming both.
    """
    data_source = workflow.data_source(preset)
    sequences = raw_data.survey(data_source)
    if not sequences:
        return
    other_roots: list[Path] = []
    if not sequences["spikes"]:
        first = sequences["sequences"][0]
        root = Path(data_source.root)
        other_roots = spike_roots(root, first["split"], first["name"], data_source.layout)
    title = f"preset {preset}, {data_source.root}"
    settings = workflow.preset(preset)
    requirements.require_spikes(title, sequences["spikes"], settings, other_roots)


def require_sequences_to_hold_out(
    workflow: DeblurringWorkflow, raw_data: RawData, preset: str
) -> None:
    """Reject a preset that holds out sequences for data with a single training sequence.

    Raises:
        ConfigError: naming both.
    """
    settings = workflow.preset(preset)
    if settings.untrained_weights is not None:
        return
    data_source = workflow.data_source(preset)
    split = f"{settings.DATA.TRAIN_SPLIT}/"
    sequences = _expected_sequences(workflow, raw_data, data_source)
    training = [name for name in sequences if name.startswith(split)]
    title = f"preset {preset}, {data_source.root}"
    requirements.require_sequences_to_hold_out(title, len(training), settings.DATA)


def _expected_sequences(
    workflow: DeblurringWorkflow, raw_data: RawData, data_source: DataSource
) -> list[str]:
    """Return the expected sequences as ``<split>/<name>``, from names and configuration.

    Sequences with faults count unless they are to be excluded: the gate lists the faults.
    """
    if data_source.kind == "simulated":
        sources = workflow.settings.SIMULATE.SEQUENCES
        return [f"{source.SPLIT}/{source.SEQUENCE}" for source in sources]
    sequences = raw_data.survey(data_source)
    if sequences is None:
        return []
    if data_source.on_error == "stop":
        return [*surveyed(sequences), *sequences["excluded"]]
    return surveyed(sequences)


def unused_data_notes(workflow: DeblurringWorkflow, preset: str) -> list[str]:
    """Return the notice on a preset that trains on generated data although DATA.ROOT is set."""
    root = workflow.settings.DATA.get("ROOT")
    data_source = workflow.data_source(preset)
    if data_source.kind != "demo" or root in (None, data_source.root) or not Path(root).is_dir():
        return []
    return [
        f"preset {preset} takes generated data ({data_source.root}, its own DATA.ROOT), not "
        f"those of config/config.yaml ({root}); on these train light_small or light: "
        "snakemake --cores all train_light_small"
    ]
