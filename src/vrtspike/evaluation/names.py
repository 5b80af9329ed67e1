"""What the files of an evaluation are called, below ``results/evaluate/<preset>``."""

from __future__ import annotations

FRAMES = "frames.csv"
SEQUENCES = "sequences.csv"
SUMMARY = "summary.json"
TABLE = "metrics.html"
PICTURES = "pictures"
EXAMPLES = "examples"
EXAMPLES_INDEX = "examples.json"
VIDEOS = "videos"
