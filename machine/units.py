"""What an instruction takes, whoever made the processor."""

from __future__ import annotations

from . import cdna, pipes
from .pipes import Cost, Processor
from .sass import Instruction


def cost(x: Instruction, p: Processor) -> Cost:
    """What an instruction of a warp takes."""
    return cdna.cost(x, p) if p.target.vendor == "amd" else pipes.cost(x, p)


def unmodelled(x: Instruction, p: Processor) -> bool:
    """Whether its time is not modelled."""
    return cdna.unmodelled(x) if p.target.vendor == "amd" else pipes.unmodelled(x)
