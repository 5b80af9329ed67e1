"""What came out, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vrtspike.reporting.evaluations import Evaluation, MetricFigures
from vrtspike.reporting.runs import ReportedRun


@dataclass(frozen=True)
class Words:
    """A piece of a sentence.

    Attributes:
        text: the words.
        strong: whether they are set off.
    """

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Verdict:
    """What a page says first.

    Attributes:
        sentence: its pieces.
        facts: short statements below it.
    """

    sentence: tuple[Words, ...]
    facts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentence without its pieces."""
        return "".join(words.text for words in self.sentence)


def verdict(runs: Sequence[ReportedRun]) -> Verdict:
    """The verdict on some runs: on the best of those that were evaluated.

    The best is that with the best restored figure of the metric that the first evaluation names,
    among those of the same test frames; figures of other frames do not compare.

    Args:
        runs: at least one.
    """
    measured = [(run, e, m) for run in runs if (e := run.evaluated) and (m := e.leading)]
    if not measured:
        return _unmeasured(runs)
    _, first, leading = measured[0]
    same = [
        (run, e, m)
        for run, e, m in measured
        if (m.name, e.test_frames) == (leading.name, first.test_frames)
    ]
    run, evaluation, metric = max(same, key=lambda entry: _score(entry[2]))
    facts = _facts(run, evaluation, metric)
    compared = [other.name for other, _, _ in same]
    if left := [other.name for other, _, _ in measured if other.name not in compared]:
        facts.append(f"not compared, of other test frames or metrics: {', '.join(left)}")
    return Verdict(tuple(_sentence(run, evaluation, metric, len(same))), tuple(facts))


def _score(metric: MetricFigures) -> float:
    value = metric.restored if metric.restored is not None else float("nan")
    return value if metric.larger_is_better else -value


def _sentence(
    run: ReportedRun, evaluation: Evaluation, metric: MetricFigures, compared: int
) -> list[Words]:
    blurry, restored, gain = metric.blurry or 0.0, metric.restored or 0.0, metric.gain or 0.0
    frames = f"{evaluation.frames} frame{'' if evaluation.frames == 1 else 's'}"
    who = f"Preset {run.name}" if compared == 1 else f"Preset {run.name}, best of {compared},"
    shown = metric.text(abs(gain))
    change = [Words(f"a {'gain' if gain >= 0 else 'loss'} of "), Words(shown, strong=True)]
    if shown == metric.text(0.0):
        change = [Words("no change")]
    commit = _commit(run)
    # Decibels speak for themselves; other figures must be named.
    named = "" if metric.unit == "dB" else f"{metric.title} "
    lower = "" if metric.larger_is_better else ", lower is better"
    return [
        Words(f"{who} takes {frames} of data set {evaluation.dataset} from {named}"),
        Words(metric.text(blurry), True),
        Words(f" ({metric.before}) to "),
        Words(metric.text(restored), True),
        Words(f" ({metric.after}{lower}): "),
        *change,
        Words(f"{commit}."),
    ]


def _commit(run: ReportedRun) -> str:
    """Of the code that trained it; what was changed and not committed is in no commit."""
    if not run.origin.commit:
        return ""
    changed = " with changes" if run.origin.changed else ""
    return f", at commit {run.origin.commit}{changed}"


def _facts(run: ReportedRun, evaluation: Evaluation, metric: MetricFigures) -> list[str]:
    sequences = evaluation.sequences
    several = f"{sequences} sequences" if sequences != 1 else "1 sequence"
    facts = [f"{metric.title}, mean over {several} of split {evaluation.split}"]
    if metric.spikes is not None:
        gray = ", in grey" if metric.spikes_in_gray else ""
        facts.append(f"spikes alone {metric.text(metric.spikes)}{gray}")
    facts += [
        f"{other.title} {other.text(other.blurry)} → {other.text(other.restored)}"
        for other in evaluation.metrics
        if other is not metric and other.blurry is not None and other.restored is not None
    ]
    if run.uses_spikes is False:
        facts.append("the model takes no spikes")
    return facts


def _unmeasured(runs: Sequence[ReportedRun]) -> Verdict:
    names = ", ".join(run.name for run in runs)
    one = len(runs) == 1
    words = f"Preset{'' if one else 's'} {names} {'was' if one else 'were'} trained"
    if one and runs[0].steps is not None:
        words += f" for {runs[0].steps:,} steps"
    commit = _commit(runs[0]) if one else ""
    reasons = dict.fromkeys(
        f"{run.name}: {run.evaluation}"
        if isinstance(run.evaluation, str)
        else f"{run.name}: the evaluation has no finite figure"
        for run in runs
    )
    return Verdict((Words(f"{words}{commit}; there are no figures of test frames."),), (*reasons,))
