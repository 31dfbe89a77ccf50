"""Equality saturation: a program in, every equal program out, as plain data that audits itself."""

from .audit import AuditReport, audit
from .frozen import ENode, FrozenGraph, SaturationReport
from .saturate import saturate

__all__ = ["AuditReport", "ENode", "FrozenGraph", "SaturationReport", "audit", "saturate"]
