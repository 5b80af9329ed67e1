"""The networks that forecast, by what MODEL.TYPE calls them."""

MODELS = {"recursive_attention": "vrtspike.sst.model.RecursiveAttentionTransformer"}
"""Dotted names of classes: reading a preset needs no PyTorch. Each is made with the parameters of
:class:`~vrtspike.sst.model.RecursiveAttentionTransformer`."""
