"""The computation of a model: batches of tiles, memory, devices, precision, ONNX files."""
