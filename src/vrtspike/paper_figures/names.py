"""Names of the figures, in the order in which they are written.

The module imports nothing, so that ``--help`` can list them at once.
"""

FIGURE_NAMES = ("crops", "psnr_over_frames", "gain_over_motion", "xt", "quality_over_cost")
"""Each is also the name of the method of :class:`vrtspike.paper_figures.writing.FigureWriter` that
writes the figure."""
