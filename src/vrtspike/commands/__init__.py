"""The commands of ``vrtspike``, listed in :mod:`vrtspike.commands.main`.

A module has two functions for each of its commands: one adds the arguments to a parser, the other
runs the command. Packages hold what a single command does: ``doctor``, ``new_project`` (``init``)
and ``public_sets`` (``data``). Large packages (arrays, PyTorch, Snakemake) are imported within
functions: ``--help`` is fast.
"""
