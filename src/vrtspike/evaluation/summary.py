"""The summary of an evaluation, as JSON, as a page and in the terminal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd

from vrtspike.analysis.evaluation_files import (
    METRICS_PAGE,
    EvaluationSummary,
    ProtocolResults,
    chosen_on_warning,
    trained_on_warning,
    worst_frames,
    write_evaluation,
)
from vrtspike.config.run_schema import unchanged_weights_note
from vrtspike.data.clips.dataset_manifest import DatasetManifest
from vrtspike.data.clips.run_statistics import learned_dataset
from vrtspike.deblurring_settings import DeblurringSettings, require_deblurring_settings
from vrtspike.deblurring_settings.evaluation import SpikesAloneName
from vrtspike.evaluation.means import overall_means, ranking_metric, sequence_means
from vrtspike.evaluation.measure import columns_of
from vrtspike.evaluation.protocols import EvaluationProtocol
from vrtspike.metrics.metric import ImageMetric
from vrtspike.metrics.registry import METRICS
from vrtspike.plotting.pages import Table, write_page
from vrtspike.restoration.spikes_alone import definition
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import BUNDLED_NAMES


class DeblurringSummary(EvaluationSummary, total=False):
    """The contents of ``summary.json``.

    Attributes:
        blur_dir: folder of the blurry frames.
        use_spike: the model reads spikes.
        bins: number of bins of a frame's spikes.
        spikes_alone: means of pictures from spikes alone by metric; None without.
        spikes_alone_note: their definition, or the reason why there are none.
    """

    blur_dir: str
    use_spike: bool
    bins: int
    spikes_alone: Mapping[str, float] | None
    spikes_alone_note: str


def write_deblurring_results(
    job: EvaluationJob,
    manifest: DatasetManifest,
    frames: pd.DataFrame,
    measured: Mapping[EvaluationProtocol, Collection[ImageMetric]],
    facts: EvaluationSummary,
) -> EvaluationSummary:
    """Write the page of an evaluation, its tables and its summary, and return the latter.

    Args:
        job: the evaluated run and the folder of its results.
        manifest: manifest of the test data.
        frames: a row for each frame and protocol.
        measured: the metrics of each protocol, the main protocol first.
        facts: further entries of the summary.
    """
    settings = require_deblurring_settings(job.run.settings, job.run.name)
    sequences = sequence_means(frames)
    results = {
        protocol: _protocol_entries(protocol, metrics, sequences, settings)
        for protocol, metrics in measured.items()
    }
    first, *others = measured
    main_frames = frames[frames["protocol"] == first.name]
    method = settings.TEST.SPIKES_ALONE
    of_spikes = _spikes_alone_means(results[first])
    entries: DeblurringSummary = {
        "preset": job.run.name,
        "dataset": manifest.name,
        "split": settings.DATA.TEST_SPLIT,
        "blur_dir": manifest.blur_dir,
        "warnings": _warnings(manifest, job.run, job.weights.parent),
        "use_spike": settings.MODEL.USE_SPIKE,
        "bins": manifest.stores.bins,
        "sequences": int(main_frames["sequence"].nunique()),
        "frames": len(main_frames),
        **results[first],
        "other_protocols": {protocol.name: results[protocol] for protocol in others},
        "spikes_alone": of_spikes or None,
        "spikes_alone_note": _spikes_alone_note(method, has_values=bool(of_spikes)),
        "worst": worst_frames(main_frames, ranking_metric(list(measured[first]))),
        **facts,
    }
    write_summary_page(job.output / METRICS_PAGE, sequences, entries)
    return write_evaluation(job, settings.DATA.TEST_SPLIT, frames, sequences, entries)


def _protocol_entries(
    protocol: EvaluationProtocol,
    metrics: Collection[ImageMetric],
    sequences: pd.DataFrame,
    settings: DeblurringSettings,
) -> ProtocolResults:
    """Return the definition and the means of one protocol.

    Args:
        protocol: protocol of these means.
        metrics: metrics measured under it.
        sequences: means per protocol and sequence.
        settings: settings of the run.
    """
    tiling = protocol.tiling(settings)
    rows = sequences[sequences["protocol"] == protocol.name]
    return {
        "protocol": protocol.name,
        "protocol_source": protocol.source,
        "protocol_unknown": protocol.unknown,
        "mean_over": protocol.mean,
        "tile": {
            "SIZE": tiling.size,
            "OVERLAP": tiling.overlap,
            "FRAMES": tiling.frames,
            "FRAMES_OVERLAP": tiling.frames_overlap,
        },
        "metrics": overall_means(rows, metrics, protocol.mean),
        "definitions": {metric.name: metric.explanation for metric in metrics},
    }


def _spikes_alone_means(results: ProtocolResults) -> dict[str, float]:
    """Return the means of pictures from spikes alone by metric; empty without."""
    metrics = results["metrics"]
    return {name: metric["spikes"] for name, metric in metrics.items() if "spikes" in metric}


def _spikes_alone_note(method: SpikesAloneName | None, *, has_values: bool) -> str:
    """Return the definition of these pictures, or the reason why there are none."""
    if method is None:
        return "TEST.SPIKES_ALONE is null"
    return definition(method) if has_values else "the data set has no spikes"


def _warnings(manifest: DatasetManifest, run: RunIdentity, folder: Path) -> list[str]:
    """Return warnings on the means: other data, or a test split that was used otherwise.

    Args:
        manifest: the evaluated data set.
        run: the run that trained the weights.
        folder: folder of its published result.
    """
    data = require_deblurring_settings(run.settings, run.name).DATA
    start = run.settings.unchanged_weights
    warnings = []
    if start is not None:
        name, digest = learned_dataset(folder)
        is_own = digest == manifest.digest
        warnings.append(
            f"{unchanged_weights_note(start)}: {_training_data_note(start, name, is_own)}"
        )
        if not is_own:
            return warnings
    elif manifest.digest != run.dataset_digest:
        warnings.append(f"of other data than it was trained on: {manifest.name} has another digest")
    if run.settings.validation_on_test_key:
        warnings.append(chosen_on_warning("the test split", run.settings.validation_on_test_key))
    prefix = f"{data.TEST_SPLIT}/"
    overlaps = {
        name: training for name, training in manifest.overlaps.items() if name.startswith(prefix)
    }
    if overlaps:
        total = len(manifest.split(data.TEST_SPLIT))
        warnings.append(trained_on_warning(overlaps, total, "DATA.TEST_ON_TRAINING_FRAMES"))
    return warnings


def _training_data_note(start: str, dataset_name: str, is_own: bool) -> str:
    """Describe the training data of weights that this run did not change.

    Args:
        start: name of the weights.
        dataset_name: name of the data set that they were trained on.
        is_own: it is the evaluated one.
    """
    if is_own:
        return "they were trained on this data set"
    if start in BUNDLED_NAMES:
        # Training pictures come from packages; the demo's test photographs are not among them.
        return "they have not seen these scenes"
    return f"they were trained on the data set {dataset_name}"


def _worst_frames_lines(summary: EvaluationSummary) -> list[str]:
    """Return a sentence with the worst frames, in a list; empty if no frame has a value."""
    worst = summary["worst"]
    if not worst:
        return []
    name = next(name for name in worst[0] if name in METRICS)
    frames = [
        f"{frame['sequence']}/{frame['frame']} ({METRICS[name].text(frame[name])})"
        for frame in worst
    ]
    return [f"Worst restored frames by {name}: {', '.join(frames)}."]


def means_table(entries: ProtocolResults) -> pd.DataFrame:
    """Return the means of a protocol as texts, a row for each metric.

    The column ``missing`` has the reasons for missing means.
    """
    rows = []
    for name, means in entries["metrics"].items():
        metric = METRICS[name]
        row = {"metric": name}
        titles = {
            "blurry": "blurry",
            "restored": "restored",
            "spikes": "spikes alone (grey)" if metric.is_color_sensitive else "spikes alone",
            "restored_error": "standard error",
        }
        for kind, title in titles.items():
            if means.get(kind) is not None:
                row[title] = metric.text(means[kind])
        if "reason" in means:
            row["missing"] = means["reason"]
        rows.append(row)
    return pd.DataFrame(rows).fillna("")


def write_summary_page(path: Path, sequences: pd.DataFrame, summary: DeblurringSummary) -> None:
    """Write a page of the means of each protocol, and of each sequence under the main one.

    Args:
        path: path of the page.
        sequences: means per protocol and sequence.
        summary: summary from :func:`write_deblurring_results`.
    """
    tables = []
    for entries in (summary, *summary["other_protocols"].values()):
        title = f"Protocol {entries['protocol']}, mean over {entries['mean_over']}"
        note = entries["protocol_source"]
        if entries["protocol_unknown"]:
            note += f"; not known: {entries['protocol_unknown']}"
        definitions = list(entries["definitions"].values())
        table = means_table(entries).assign(definition=definitions)
        tables.append(Table(table, title, note))
    main = sequences[sequences["protocol"] == summary["protocol"]].drop(columns="protocol")
    formats = {}
    for name in summary["metrics"]:
        metric = METRICS[name]
        for column in columns_of(metric).values():
            formats[column] = metric.format
    tables.append(Table(main, "Sequences", formats=formats))
    note = (
        f"{summary['frames']} frames of split '{summary['split']}' of {summary['dataset']}, blurry "
        f"frames from '{summary['blur_dir']}'. {'. '.join(summary['warnings'])}"
    )
    closing = _worst_frames_lines(summary)
    if summary["spikes_alone"]:
        closing.append(f"{summary['spikes_alone_note']}.")
    closing.append(
        "The standard error says how far a mean would scatter with other sequences; means of "
        "two protocols do not compare."
    )
    write_page(path, f"Results of preset {summary['preset']}", note.strip(), tables, closing)


def summary_lines(summary: EvaluationSummary) -> list[str]:
    """Return the means of a summary in lines for the terminal."""
    lines = [f"{summary['preset']}: {summary['frames']} frames, {summary['sequences']} sequences"]
    for entries in (summary, *summary["other_protocols"].values()):
        lines.append(f"protocol {entries['protocol']}")
        lines += means_table(entries).to_string(index=False).splitlines()
    return [*lines, *_worst_frames_lines(summary)]
