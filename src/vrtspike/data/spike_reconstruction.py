"""Pictures from spikes alone: the classical reconstructions of a spike camera.

Zhu et al., "A retina-inspired sampling method for visual texture reconstruction", ICME 2019: the
rate in a short window (texture from playback, TFP), and the interval between two spikes (texture
from inter-spike interval, TFI).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def short_window(steps: int) -> int:
    """Return steps of the short window in an exposure: three eighths of it, an even number.

    Shorter windows hold too few spikes to distinguish grey values, longer ones are blurred
    (``benchmarks/spikes_alone.py``).

    >>> short_window(88)
    32
    """
    return 2 * (3 * steps // 16)


def window_about(step: int, window: int, start: int, stop: int) -> tuple[int, int]:
    """Return the first step of a short window about an instant, and the step after its last one.

    Args:
        step: the first step after the instant.
        window: steps, half of them before the instant. Each half is shorter if the recording begins
            or ends sooner; without any step on one side the window is the whole recording.
        start: first step of the recording.
        stop: the step after its last one.
    """
    half = min(window // 2, step - start, stop - step)
    return (step - half, step + half) if half > 0 else (start, stop)


def tfp(spikes: NDArray[np.uint8], step: int, window: int) -> NDArray[np.float32]:
    """Return spikes per step in a short window about an instant.

    Args:
        spikes: uint8 (T, h, w), 0 or 1.
        step: the first step after the instant.
        window: steps, see :func:`window_about`.

    Returns:
        float32 (h, w) in [0, 1].

    >>> spikes = np.zeros((8, 1, 1), np.uint8)
    >>> spikes[3:] = 1
    >>> tfp(spikes, step=4, window=4)
    array([[0.75]], dtype=float32)
    """
    start, stop = window_about(step, window, 0, len(spikes))
    return spikes[start:stop].mean(axis=0, dtype=np.float32)


def tfi(spikes: NDArray[np.uint8], step: int) -> NDArray[np.float32]:
    """Return one spike per interval between the last spike before an instant and the next.

    A pixel without a spike on one side has no known interval; its value is its rate over the whole
    recording instead.

    Args:
        spikes: uint8 (T, h, w), 0 or 1.
        step: the first step after the instant.

    Returns:
        float32 (h, w) in [0, 1], spikes per step.

    >>> spikes = np.zeros((8, 1, 1), np.uint8)
    >>> spikes[[2, 6]] = 1
    >>> tfi(spikes, step=4)
    array([[0.25]], dtype=float32)
    """
    # Distances count away from the instant on either side.
    before = spikes[:step][::-1]
    after = spikes[step:]
    rate = spikes.mean(axis=0, dtype=np.float32)
    if not len(before) or not len(after):
        return rate
    # argmax finds the first spike.
    interval = before.argmax(axis=0) + after.argmax(axis=0) + 1
    has_both = before.any(axis=0) & after.any(axis=0)
    return np.where(has_both, 1 / interval, rate).astype(np.float32)
