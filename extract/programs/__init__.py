"""Which program: of the equal ones that a saturation finds, those that may be cheaper than the one that was written.

Kernels are chosen for one program: only its values are stored between kernels.  So the order of its sums, and what it computes at all, is
chosen before (:mod:`.candidates`), by a price of programs that knows no kernel (:mod:`.price`), and the few programs that it finds
are then planned like the one that was written; so are forms that no rule makes, as the packed one of a padded program (:mod:`.forms`).
"""

from .candidates import Choice, other_programs
from .forms import FORMS, Form, forms

Another = Choice | Form  # a program that is planned in the place of the one that was written

__all__ = ["FORMS", "Another", "Choice", "Form", "forms", "other_programs"]
