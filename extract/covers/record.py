"""What a search has priced, and why each cover that lost did."""

from __future__ import annotations

import math

from ..objective import Objective
from ..plan import Alternative
from ..quantities import bytes_text, plural
from .cover import Cover, alternative, bound_of


class Record:
    """The covers of one search.

    ``considered``: those that may be taken.  ``lost``: those that were beaten.  ``rejected``: what is said of these, and of what no cover
    was found for.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.considered: list[Cover] = []
        self.lost: list[Cover] = []
        self.rejected: list[Alternative] = []

    def priced(self, cover: Cover) -> Cover:
        """The cover, as one that may be taken."""
        self.considered.append(cover)
        return cover

    def beaten(self, cover: Cover, best: Cover) -> None:
        """Notes a cover that another beats."""
        self.lost.append(cover)
        self.rejected.append(alternative(cover, self.reason(cover, best)))

    def failed(self, description: str, reason: str) -> None:
        """Notes that there is no cover of a kind."""
        self.rejected.append(Alternative(description, 0, math.inf, 0, reason))

    def reason(self, cover: Cover, best: Cover) -> str:
        """Why a cover lost: slower, or faster but with more memory than may be held, or by too little to count."""
        slower = cover.us - best.us
        if slower >= 0:
            return f"{slower:.1f} us slower: {bound_of(cover)}"
        holds = f"holds {bytes_text(cover.temporary_bytes)} of temporary memory"
        if cover.temporary_bytes > self.objective.limit:
            return f"{-slower:.1f} us faster but {holds}, and {bytes_text(int(self.objective.limit))} are the limit"
        if self.objective.by == "memory":
            return f"{-slower:.1f} us faster but {holds}"
        if self.objective.held(cover.temporary_bytes) <= self.objective.held(best.temporary_bytes):
            holds = f"has {plural(len(cover.steps), 'kernel')}"
        return f"{-slower:.1f} us faster, less than the model can tell, and {holds}"
