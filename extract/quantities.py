"""Quantities in words: ``1.23 MB``, ``3 kernels``."""

from __future__ import annotations


def bytes_text(n: float) -> str:
    """1234567 -> '1.23 MB'."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(n) < 1000 or unit == "TB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.2f} {unit}"
        n /= 1000
    raise AssertionError


def plural(n: int, noun: str) -> str:
    """1 kernel, 2 kernels."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
