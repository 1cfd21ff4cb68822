"""Runs the kernels of metal/ on an NVIDIA GPU, see README.md."""
