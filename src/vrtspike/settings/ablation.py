"""The ablation of the spikes: the variants of a preset and the texts of their page."""

from __future__ import annotations

from vrtspike.config.ablations import Ablation, Variant

ABLATION = Ablation(
    title="What the spikes are worth",
    label="spikes",
    phrase="with them",
    note=(
        "The three models of a preset have the same data, seed and settings. 'Without spikes' is "
        "the backbone alone. With 'shuffled spikes' every frame gets the spikes of another frame "
        "of its clip, or of the frame before or after (DATA.NEIGHBOURS): as many parameters and "
        "the same spikes, but nothing tells which belong to which frame. 'difference' is by how "
        "much a model is better than that with spikes."
    ),
    needs={"MODEL.USE_SPIKE": True, "MODEL.SPIKE_ORDER": "recorded"},
    variants=(
        Variant(
            "without spikes", "-without-spikes", "MODEL.USE_SPIKE=false", phrase="without spikes"
        ),
        Variant(
            "shuffled spikes",
            "-shuffled-spikes",
            "MODEL.SPIKE_ORDER=shuffled",
            phrase="with shuffled spikes",
            no_worse="This model makes no use of which spikes belong to which frame.",
        ),
    ),
)
