"""Whole programs in parts that are planned one by one, equal ones once.

:func:`partition` says which values are stored whatever the kernels are, and :func:`regions` makes a program of what lies between.  No
operation is known by its name: regions end where computing again costs more than storing (:mod:`.stages`), at the values that are
the fewest bytes (:mod:`.cuts`).
"""

from .asked import handed_out
from .common import stored_by_several
from .partition import Partition, neighbourhoods, partition
from .region import Region, regions
from .whole import last_readers, tensors, whole_plan

__all__ = [
    "Partition", "Region", "handed_out", "last_readers", "neighbourhoods", "partition", "regions", "stored_by_several", "tensors",
    "whole_plan",
]  # fmt: skip
