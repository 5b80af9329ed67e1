"""The metrics of restored frames, a file each; ``registry.py`` names them.

A figure of a sequence is the mean over its frames; the figure of a test set is the mean over its
sequences, or over all frames where the protocol says so. Pooling the squared error over frames
before the logarithm gives other numbers (lower by up to several dB) and is not done here.
"""
