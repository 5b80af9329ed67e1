"""Settings against settings: the same few steps of a preset, trained in turns and compared."""
