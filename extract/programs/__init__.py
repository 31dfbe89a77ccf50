"""Which program: of the equal ones that a saturation finds, those that may be cheaper than the one that was written.

Kernels are chosen for one program: only its values are stored between kernels.  So the order of its sums, and what it computes at all, is
chosen before (:mod:`.candidates`), by a price of programs that knows no kernel (:mod:`.price`), and the few programs that it finds
are then planned like the one that was written; so is the packed form of a padded program (:mod:`.packed`).
"""

from .candidates import Choice, other_programs
from .packed import Packed, packed_forms

Another = Choice | Packed  # a program that is planned in the place of the one that was written

__all__ = ["Another", "Choice", "Packed", "other_programs", "packed_forms"]
