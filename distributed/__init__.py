"""Programs across devices: where values are, what moves, and what each device computes.

:mod:`.mesh` has places and moves, :mod:`.propagation` which places an operation needs, :mod:`.forms` what may be computed how,
:mod:`.choice` the cheapest way, :mod:`.cut` its local programs and collectives, :mod:`.across` the callable.
"""

from .across import Across
from .arguments import DTensorSpec, across_devices

__all__ = ["Across", "DTensorSpec", "across_devices"]
