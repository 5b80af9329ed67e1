"""What the pictures of the workflow say: a few words below the name of each rule."""

from __future__ import annotations

from vrtspike.rule_picture import RuleGraph, draw

_SOURCE = ("frames, spikes", "帧与脉冲")
_GENERATED = ("demo_data", "simulate")
_WORDS = {
    "survey": ("what is there", "有哪些序列"),
    "ingest": ("checks each sequence", "检查每个序列"),
    "alignment": ("exposures, one table", "曝光对齐表"),
    "accept": ("stops at faults", "有错误则停止"),
    "voxelize": ("a store per sequence", "每个序列一个存储"),
    "statistics": ("mean, deviation, digest", "均值、标准差、摘要"),
    "train": ("weights, logs", "权重、日志"),
    "evaluate": ("figures, pictures", "指标、图片"),
    "analyze_performance": ("time, memory, findings", "耗时、内存、诊断"),
    "compare": ("presets side by side", "各预设对比"),
    "page": ("the page to show", "用于展示的网页"),
    "report": ("one file, all results", "全部结果，一个文件"),
    "fetch_weights": ("published weights", "公开的权重"),
}
"""In English and Chinese. A rule without any is drawn with its name alone."""
_TITLES = (
    "The rules of the workflow, from frames and spikes to the report",
    "工作流的各条规则：从帧与脉冲到报告",
)


def workflow_pictures(dot: str) -> dict[str, str]:
    """The pictures of a graph of rules by file name, in English and in Chinese.

    Args:
        dot: what ``snakemake --rulegraph dot`` prints.

    Raises:
        ValueError: if there is no rule in it.
    """
    graph = RuleGraph.from_dot(dot)
    return {
        name: draw(
            graph.starting_at(_SOURCE[language], _GENERATED),
            {rule: words[language] for rule, words in _WORDS.items()},
            _TITLES[language],
        )
        for language, name in enumerate(("workflow.svg", "workflow.zh.svg"))
    }
