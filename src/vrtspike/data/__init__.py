"""Raw frames and spike files, the store, clips and batches.

The modules are imported one by one; this package itself imports nothing, so that the workflow can
read :mod:`vrtspike.data.raw.layouts.registry` while it plans without importing torch or zarr.
"""
