"""Statistics of timed sections."""

from __future__ import annotations

import pandas as pd

from vrtspike.monitoring.timing_layout import ROOT

WARM_UP_STEPS = 1
"""Steps left out at the start: compilation, algorithm search and the first data are not typical."""

SUMMARY_COLUMNS = ["section", "depth", "count", "mean", "p50", "p95", "min", "max", "share"]


def without_warm_up(timing: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``timing`` without its first steps, unless nothing else is there."""
    steps = timing["step"].drop_duplicates()
    if len(steps) <= WARM_UP_STEPS:
        return timing
    return timing[~timing["step"].isin(steps.iloc[:WARM_UP_STEPS])]


def summarize_sections(timing: pd.DataFrame) -> pd.DataFrame:
    """One row per section in the order of a tree, parents before their children.

    Args:
        timing: rows of ``step``, ``section``, ``ms``, as :func:`read_run_logs` gives them.

    Returns:
        ``section``, ``depth`` (0 at the top), ``count`` of steps in which it ran, ``mean``,
        ``p50``, ``p95``, ``min``, ``max`` in milliseconds, ``share`` of the time of all steps
        (0 to 1; not a number for sections outside steps where no step was timed).
    """
    if timing.empty:
        types = {name: str if name == "section" else float for name in SUMMARY_COLUMNS}
        return pd.DataFrame(columns=SUMMARY_COLUMNS).astype(types)
    steady = without_warm_up(timing)
    grouped = steady.groupby("section", sort=False)["ms"]
    table = grouped.agg(
        count="count",
        mean="mean",
        p50="median",
        p95=lambda values: values.quantile(0.95),
        min="min",
        max="max",
        total="sum",
    ).reset_index()
    table["section"] = table["section"].astype(str)
    step_total = table.loc[table["section"] == ROOT, "total"].sum()
    table["share"] = table["total"] / step_total if step_total else float("nan")
    table["depth"] = table["section"].str.count("/")
    return _in_tree_order(table)[SUMMARY_COLUMNS].reset_index(drop=True)


def _in_tree_order(table: pd.DataFrame) -> pd.DataFrame:
    """Depth first; siblings in order of their first appearance."""
    sections: list[str] = table["section"].tolist()
    first: dict[str, int] = {}
    for number, section in enumerate(sections):
        for ancestor in _lineage(section):
            first.setdefault(ancestor, number)
    keys = [tuple(first[ancestor] for ancestor in _lineage(section)) for section in sections]
    return table.iloc[sorted(range(len(keys)), key=keys.__getitem__)]


def _lineage(section: str) -> list[str]:
    """``a/b/c`` as [``a``, ``a/b``, ``a/b/c``]."""
    parts = section.split("/")
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def step_parts(sections: pd.DataFrame) -> dict[str, float]:
    """Share of the step (0 to 1) of each section directly under it, and of the rest."""
    children = sections[sections["section"].str.match(rf"{ROOT}/[^/]+$")]
    if children.empty or ROOT not in set(sections["section"]):
        return {}
    parts = {
        str(section).removeprefix(ROOT + "/"): float(share)
        for section, share in zip(children["section"], children["share"], strict=True)
    }
    return parts | {"other": max(0.0, 1.0 - sum(parts.values()))}


def throughput(steps: pd.DataFrame, timing: pd.DataFrame, points: int = 100) -> pd.DataFrame:
    """Samples per second over the run, averaged over neighbouring steps.

    Args:
        steps: rows of ``step``, ``samples``, ``frames``.
        timing: rows of ``step``, ``section``, ``ms`` with the section ``step``.
        points: at most so many rows come back.

    Returns:
        ``step`` (the last of the averaged ones), ``samples_per_second``, ``frames_per_second``.
    """
    whole = timing.loc[timing["section"] == ROOT, ["step", "ms"]]
    merged = steps.merge(whole, on="step")
    merged = merged[merged["ms"] > 0]
    if merged.empty:
        return pd.DataFrame(columns=["step", "samples_per_second", "frames_per_second"])
    width = -(-len(merged) // points)
    groups = merged.groupby(pd.RangeIndex(len(merged)) // width)
    seconds = groups["ms"].sum() / 1e3
    return pd.DataFrame(
        {
            "step": groups["step"].last(),
            "samples_per_second": groups["samples"].sum() / seconds,
            "frames_per_second": groups["frames"].sum() / seconds,
        }
    )
