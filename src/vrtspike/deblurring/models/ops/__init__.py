"""Operations of the networks: reference implementations in PyTorch and kernels of our own."""
