"""What is done by hand: a module per command of ``vrtspike``, listed in :mod:`vrtspike.main`.

A module has a docstring (what ``--help`` tells first), ``add_arguments(parser)`` and
``run(arguments)``, which returns an exit status or None. ``--help`` shall answer at once, so that a
module imports what is heavy (arrays, PyTorch, Snakemake) inside of ``run``.
"""
