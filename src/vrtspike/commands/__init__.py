"""The commands of ``vrtspike``, listed in :mod:`vrtspike.commands.main`.

``--help`` shall answer at once, so that what is heavy (arrays, PyTorch, Snakemake) is imported
within functions.
"""
