"""Tables that compare evaluated runs: presets, ablations, seeds, sweeps, baselines."""
