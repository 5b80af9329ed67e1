"""Staleness: the changes that make results be made again, for docs/staleness.md.

- :mod:`~vrtspike.staleness.source_digests` digests the source files of a program.
- :mod:`~vrtspike.staleness.stage_inputs` says which code and settings change the result of each
  program in ``scripts/``.
- :mod:`~vrtspike.staleness.params` turns these into params of rules, which Snakemake compares with
  the last run; its input functions force the rerun of damaged results.
- :mod:`~vrtspike.staleness.trainings` decides on trainings, whose records lie next to their
  weights: ``settings.json``, which is the identity of a run (:mod:`vrtspike.runs.identity`), and
  ``code.json`` (:mod:`~vrtspike.staleness.training_code`), which the launcher compares, too.

A sequence of a shard is compared with its own manifest (:mod:`vrtspike.data.stages`).
"""
