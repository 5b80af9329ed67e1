"""Times of the sections of a run's steps."""

from __future__ import annotations

import math

import pandas as pd

from vrtspike.monitoring.timing_text import STEP_SECTION, tree_order

DATA = f"{STEP_SECTION}/data"
FORWARD = f"{STEP_SECTION}/forward"
BACKWARD = f"{STEP_SECTION}/backward"
RECOMPUTATION = f"{BACKWARD}/recomputation"

WARM_UP_STEPS = 1
"""First steps of a start, left out: they hold compilation, autotuning and the first batches."""

SUMMARY_COLUMNS = ["section", "depth", "count", "mean", "p50", "p95", "min", "max", "share"]


def without_warm_up(timing: pd.DataFrame, starts: pd.DataFrame) -> pd.DataFrame:
    """Drop the first steps of ``timing`` and those after each start, if there are others."""
    steps = timing["step"].drop_duplicates()
    warm_up = steps.iloc[:WARM_UP_STEPS].tolist()
    for start in starts["step"]:
        warm_up += steps[steps > start].iloc[:WARM_UP_STEPS].tolist()
    steady = timing[~timing["step"].isin(warm_up)]
    return timing if steady.empty else steady


def summarize_sections(timing: pd.DataFrame, starts: pd.DataFrame) -> pd.DataFrame:
    """Return one row per section in the order of a tree, parents before their children.

    Args:
        timing: rows of ``step``, ``section``, ``ms``, from
            :func:`vrtspike.analysis.run_logs.read_run_logs`.
        starts: rows of ``step``, from the same.

    Returns:
        ``section``, ``depth`` (0 at the top), ``count`` of steps in which it ran, ``mean``,
        ``p50``, ``p95``, ``min``, ``max`` in milliseconds, ``share`` of the time of all steps
        (0 to 1; not a number for sections outside steps where no step was timed).
    """
    # An empty table needs a type, without which means cannot be computed.
    steady = without_warm_up(timing, starts).astype({"ms": float})
    grouped = steady.groupby("section", sort=False, observed=True)["ms"]
    table = grouped.describe(percentiles=[0.5, 0.95])
    table = table.rename(columns={"50%": "p50", "95%": "p95"})
    table.index = table.index.astype(str)
    total = table["count"] * table["mean"]
    table["share"] = total / (total.get(STEP_SECTION) or math.nan)
    table["depth"] = table.index.str.count("/")
    table = table.loc[tree_order(table.index)].rename_axis("section")
    return table.reset_index()[SUMMARY_COLUMNS]


def step_parts(sections: pd.DataFrame) -> dict[str, float]:
    """Return the share of the step (0 to 1) of each section directly under it, and of the rest."""
    shares = sections.set_index("section")["share"].dropna()
    children = shares[shares.index.str.match(rf"{STEP_SECTION}/[^/]+$")]
    if children.empty:
        return {}
    parts = {
        str(name).removeprefix(f"{STEP_SECTION}/"): float(share) for name, share in children.items()
    }
    parts["other"] = max(0.0, 1.0 - sum(parts.values()))
    return parts


def throughput(steps: pd.DataFrame, timing: pd.DataFrame) -> pd.DataFrame:
    """Return the samples and frames per second of each timed step.

    Args:
        steps: rows of ``step``, ``samples``, ``frames``.
        timing: rows of ``step``, ``section``, ``ms`` with the section ``step``.

    Returns:
        ``step``, ``samples_per_second``, ``frames_per_second``.
    """
    timed = timing[(timing["section"] == STEP_SECTION) & (timing["ms"] > 0)]
    whole = steps.merge(timed, on="step").set_index("step")
    rates = whole[["samples", "frames"]].div(whole["ms"] / 1e3, axis="index")
    return rates.add_suffix("_per_second").reset_index()
