"""The commands of ``vrtspike``, listed in :mod:`vrtspike.commands.main`.

Large packages (arrays, PyTorch, Snakemake) are imported within functions: ``--help`` is fast.
"""
