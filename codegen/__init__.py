"""Tile programs as text: Triton kernels, their signatures, and standalone modules."""
