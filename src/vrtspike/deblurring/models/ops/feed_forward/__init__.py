"""Feed-forward layers over channels, with layer norm and residual.

Sources: Vaswani et al., 2017, "Attention Is All You Need"; the gate of Shazeer, 2020, "GLU Variants
Improve Transformer".
"""

from vrtspike.deblurring.models.ops.feed_forward.operation import (
    OPERATION,
    Layers,
    feed_forward,
    geglu,
)

__all__ = ["OPERATION", "Layers", "feed_forward", "geglu"]
