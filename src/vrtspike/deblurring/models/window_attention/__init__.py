"""Window attention: several implementations behind one interface.

Every implementation is a function ``(qkv, bias, plan, heads) -> out`` as documented at
:func:`vrtspike.deblurring.models.window_attention.explicit.explicit_attention`.
"""

from __future__ import annotations

from vrtspike.deblurring.models.window_attention.choice import (
    IMPLEMENTATIONS,
    check_implementation,
    choose_implementation,
    leaves_out,
    window_attention,
)

__all__ = [
    "IMPLEMENTATIONS",
    "check_implementation",
    "choose_implementation",
    "leaves_out",
    "window_attention",
]
