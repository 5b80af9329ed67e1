"""Published figures on the pages, against the table and the presets."""

from __future__ import annotations

from pathlib import Path

from vrtspike.evaluation.published import read_published_figures
from vrtspike.settings.schema import load_video_preset


def section(page: Path, title: str) -> str:
    """The text below a title, up to the next one of any depth."""
    below = page.read_text(encoding="utf-8").split(f"# {title}\n")[1]
    return below.split("\n#")[0]


def test_every_published_model_and_protocol_is_in_the_page(repository):
    text = section(repository / "docs/training.md", "Beside published figures")
    rows = read_published_figures()
    names = {name.split(",")[0] for name in rows["model"]} | set(rows["protocol"])
    assert [name for name in sorted(names) if name not in text] == []


def test_the_page_compares_the_values_of_the_light_preset(repository):
    text = section(repository / "docs/training.md", "`light` beside NAFNet")
    settings = load_video_preset(repository / "config/presets/light.yaml")
    train, loss = settings.TRAIN, settings.LOSS.CHARBONNIER
    clips = train.BATCH_SIZE * train.GRADIENT_ACCUMULATION_STEPS
    texts = [
        f"{train.MAX_STEPS:,} x {clips} clips of {settings.DATA.CLIP_LEN} neighbouring frames",
        f"| crop | {settings.DATA.CROP_SIZE} x {settings.DATA.CROP_SIZE} |",
        f"Charbonnier, delta {loss.DELTA:.0e}".replace("e-0", "e-"),
        f"warm-up of {train.SCHED.WARMUP_STEPS:,} steps",
        f"betas {train.OPTIM.BETAS[0]} and {train.OPTIM.BETAS[1]}",
        f"weight decay {train.OPTIM.WEIGHT_DECAY:.0e}".replace("e-0", "e-"),
        f"norm {train.MAX_GRAD_NORM:g}",
        f"| {train.EMA} |",
    ]
    assert [words for words in texts if words not in text] == []
