"""An e-graph that is made when somebody asks for it: a plan that was read from disk needs none, and explaining it does."""

from __future__ import annotations

from collections.abc import Callable

from .frozen import FrozenGraph


class Later:
    """``sized`` is known before: whether a rule depended on the lengths of axes."""

    def __init__(self, make: Callable[[], FrozenGraph], sized: bool) -> None:
        self._make, self.sized = make, sized
        self._made: FrozenGraph | None = None  # no cached_property: before Python 3.12 that has a lock, and saturating another one

    def graph(self) -> FrozenGraph:
        """The e-graph; saturation finds the same one again."""
        if self._made is None:
            self._made = self._make()
        return self._made
