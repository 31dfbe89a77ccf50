"""The whole path from a request to a plan, as a list of stages.

A :class:`Request` is what somebody wants, and does not change.  :func:`run` takes it through the stages; :func:`rerun` and :func:`like`
take what came out for another target or other sizes, and run only the stages that this changes.  A program as one is planned in
:mod:`.whole`; which programs and parts are planned, :mod:`.ways` decides.

``EQFUSE_SPEC=1`` checks what stages hand to each other (:mod:`..ir.spec`), ``EQFUSE_AUDIT=1`` audits every e-graph (:mod:`.debug`, which
prints, too); the tests run with both on.
"""

from .exchanged import equal_programs
from .planned import Parts, Planned
from .request import LICENCES, Request, active_rules, checked
from .run import old_objects_left_alone, run
from .sizes import anew, like, rerun

__all__ = [
    "LICENCES", "Parts", "Planned", "Request", "active_rules", "anew", "checked", "equal_programs", "like", "old_objects_left_alone",
    "rerun", "run",
]  # fmt: skip
