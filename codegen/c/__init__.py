"""Tile programs as C: kernels for CPUs, compiled by the compiler of the system (docs/decisions/cpu.md)."""
