"""The metrics of restored frames, a module each; ``registry.py`` lists them.

The value of a sequence is the mean over its frames. The value of a test set is the mean over its
sequences, or over all frames, as the protocol defines it. Pooling the squared error over frames
before the logarithm gives other numbers (lower by up to several dB) and is not done here.
"""
