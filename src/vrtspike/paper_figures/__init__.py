"""Figures for a paper: crops, PSNR over frames, gain over motion, x-t slices, quality over cost."""
