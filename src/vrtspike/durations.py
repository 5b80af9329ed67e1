"""Times as a person reads them."""

from __future__ import annotations


def format_duration(seconds: float) -> str:
    """Hours, minutes and seconds as ``1:02:03`` or ``2:03``, for what runs and for columns.

    >>> format_duration(125.4), format_duration(3723)
    ('2:05', '1:02:03')
    """
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration_words(seconds: float) -> str:
    """A time in the unit that fits, for sentences.

    >>> duration_words(42), duration_words(270), duration_words(7000), duration_words(400000)
    ('42 s', '4.5 min', '1.94 h', '111 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.3g} h"
