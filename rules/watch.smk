"""What a person sees: a line per stage, targets first in lists, the report at the end."""

from vrtspike.watching.workflow import (
    Watch,
    list_targets_first,
    provide_cores,
    tell_reasons,
)

provide_cores(workflow)
tell_reasons(REASONS)
list_targets_first(
    workflow,
    first=[
        *["all", "demo", "sst_demo", "report", "ablation", "weights"],
        *expand(
            "{kind}_{preset}",
            kind=["train", "evaluate", "analyze_performance", "ablation"],
            preset=PLAN.presets,
        ),
    ],
)
WATCH = Watch(
    workflow,
    loud=["accept", "train", "evaluate"],
    announced=["train", "evaluate"],
    summaries=[f"{RESULTS}/{demo}/summary.txt" for demo in ("demo", "sst_demo")],
    # The best first: the page that people show, then Snakemake's own report.
    pages=[
        f"{RESULTS}/index.html",
        f"{RESULTS}/demo/index.html",
        f"{RESULTS}/sst_demo/index.html",
        f"{RESULTS}/report.html",
        f"{RESULTS}/demo/report.html",
        f"{RESULTS}/sst_demo/report.html",
    ],
    turns=Path(RESULTS) / "logs/snakemakes",
)
