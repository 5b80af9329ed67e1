"""The verdict at the start of the report page: the best run and its main result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vrtspike.analysis.comparisons.quality_tables import have_other_contents
from vrtspike.analysis.evaluation_files import reasons_not_to_count
from vrtspike.analysis.intervals import CONFIDENCE_LEVEL
from vrtspike.reporting.embedded_media import evaluation_of
from vrtspike.reporting.offline_page import Headline
from vrtspike.reporting.page_data import EvaluationOnPage, MetricMeans, RunOnPage
from vrtspike.reporting.task_report import task_report


def verdict(runs: Sequence[RunOnPage]) -> Headline:
    """Write the verdict on the best of the evaluated runs.

    The best run has the best result by the first evaluation's main metric, among the runs with the
    same test frames, because values of different frames cannot be compared. Runs whose values are
    no test of their model are left out if there are others.

    Args:
        runs: runs from :func:`vrtspike.reporting.run_data.read_run_on_page`, at least one.
    """
    evaluated = [entry for entry in map(_leading_result, runs) if entry is not None]
    if not evaluated:
        return _verdict_without_values(runs)
    counted = [entry for entry in evaluated if entry.is_test] or evaluated
    comparable = [entry for entry in counted if entry.is_comparable(counted[0])]
    best = max if counted[0].metric["larger_is_better"] else min
    leader = best(comparable, key=lambda entry: entry.result)
    facts = _facts(leader)
    others = [entry.run["name"] for entry in counted if entry not in comparable]
    if others:
        facts.append(f"not compared, of other test frames or metrics: {', '.join(others)}")
    not_counted = [entry.run["name"] for entry in evaluated if entry not in counted]
    if not_counted:
        facts.append(f"not counted, no test of the model: {', '.join(not_counted)}")
    return Headline(_sentence(leader, len(comparable)), facts, leader.run["name"])


@dataclass(frozen=True)
class _LeadingResult:
    """A run with the metric of the page's first sentence, whose means are finite.

    Attributes:
        run: run that the sentence is about.
        evaluation: evaluation of the run.
        metric: most important metric, with its means.
        reference: mean of the reference.
        result: mean of the result.
        gain: improvement of the result over the reference.
    """

    run: RunOnPage
    evaluation: EvaluationOnPage
    metric: MetricMeans
    reference: float
    result: float
    gain: float

    @property
    def is_test(self) -> bool:
        """The values are a test of the model."""
        return not reasons_not_to_count({"warnings": self.evaluation["warnings"]})

    def is_comparable(self, other: _LeadingResult) -> bool:
        """Return whether both are of one metric, of the same frames with the same contents."""
        if self.metric["name"] != other.metric["name"]:
            return False
        if self.evaluation["test_frames"] != other.evaluation["test_frames"]:
            return False
        return not have_other_contents(self.evaluation["contents"], other.evaluation["contents"])


def _leading_result(run: RunOnPage) -> _LeadingResult | None:
    """Return the result of a run by its first metric with finite means; None without one."""
    evaluation = evaluation_of(run)
    if evaluation is None:
        return None
    for metric in evaluation["metrics"]:
        reference = metric["reference"]
        result = metric["result"]
        gain = metric["gain"]
        if reference is not None and result is not None and gain is not None:
            return _LeadingResult(run, evaluation, metric, reference, result, gain)
    return None


def _verdict_without_values(runs: Sequence[RunOnPage]) -> Headline:
    """Return the verdict on runs without values of test frames, with the reasons."""
    trained = ", ".join(f"{run['name']}, at {run['origin']['commit']}" for run in runs)
    default = "the evaluation has no finite value"
    reasons = [f"{run['name']}: {run['evaluation'].get('reason', default)}" for run in runs]
    return Headline(f"Trained, without metrics of test frames: {trained}.", reasons)


def _facts(leader: _LeadingResult) -> list[str]:
    """Return short statements on the best run."""
    metric = leader.metric
    evaluation = leader.evaluation
    unit = evaluation["mean_over"]
    facts = [
        *evaluation["warnings"],
        f"{metric['title']}, mean over the {unit} ({evaluation[unit]}) of split "
        f"{evaluation['split']}",
    ]
    if metric["gain_interval"] is not None:
        low, high = (f"{end:+.{metric['decimals']}f}" for end in metric["gain_interval"])
        ends = f"{low} to {high} {metric['unit']}".rstrip().replace("-", "−")
        facts.append(f"{100 * CONFIDENCE_LEVEL:.0f} % interval of the gain, over sequences: {ends}")
    if leader.run["training_seconds"] is not None:
        origin = dict(leader.run["origin"]["facts"])
        facts.append(f"trained: {origin['training']}, {origin['machine']}")
    return facts


def _sentence(leader: _LeadingResult, compared: int) -> str:
    """Return the main result of the best run in a sentence, with the number of compared runs."""
    run = leader.run
    metric = leader.metric
    evaluation = leader.evaluation

    def bold(value: float) -> str:
        text = f"{value:.{metric['decimals']}f} {metric['unit']}"
        return f"**{text.strip()}**"

    best = f", best of {compared}," if compared > 1 else ""
    change = f"a {'gain' if leader.gain >= 0 else 'loss'} of {bold(abs(leader.gain))}"
    if bold(abs(leader.gain)) == bold(0.0):
        change = "no change"
    is_implied = metric["title"] == task_report(run["task"]).implied_metric
    title = "" if is_implied else f"{metric['title']} "
    lower = "" if metric["larger_is_better"] else ", lower is better"
    return (
        f"Preset {run['name']}{best} takes {evaluation['frames']} frames of data set "
        f"{evaluation['dataset']} from {title}{bold(leader.reference)} "
        f"({metric['before']}) to {bold(leader.result)} ({metric['after']}{lower}): "
        f"{change}, at {run['origin']['commit']}."
    )
