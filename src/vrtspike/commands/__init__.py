"""The commands of ``vrtspike``, listed in :mod:`vrtspike.commands.main`.

Each command has a module of its name with two functions: one adds the arguments to a parser, the
other runs the command. Packages hold what a single command does: ``readiness`` (``doctor``),
``new_project`` (``init``) and ``public_sets`` (``data``). Large packages (arrays, PyTorch,
Snakemake) are imported within functions: ``--help`` is fast.
"""
