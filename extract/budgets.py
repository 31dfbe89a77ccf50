"""How many loops over each streamed axis: the budgets worth solving, without writing down all that there are.

A budget has one number of loops for each axis, so there are exponentially many.  More loops never hurt: what cannot be done with so many
over one axis and as many as may be over the others needs more over that axis.  That gives the least for each axis; from there budgets
are tried in order, those with fewer loops in all first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

Budget = tuple[int, ...]
S = TypeVar("S")

ENUMERATED = 2  # axes; with more of them it is asked first how many loops each of them needs at least
MOST_REFUSED = 64  # budgets that are tried in order; then loops are taken away, one at a time, from the most that there may be


def possible(
    n: int,
    limit: int,
    solve: Callable[[Budget], S | None],
    can_be: Callable[[Budget], bool],
    spent: Callable[[], bool],
    more: int = 0,
) -> Iterator[tuple[Budget, S]]:
    """The budgets for ``n`` axes, of at most ``limit`` loops each, that have a solution, with it: those with as many loops as the first of
    them, and up to so many ``more``.

    ``can_be``: whether a budget allows anything; ``solve`` may find nothing even then.  Where the first :data:`MOST_REFUSED` have no
    solution, the first is one of which no loop can be taken away.  Nothing follows when what there is for it is ``spent``.
    """
    refused = 0
    least: int | None = None
    for b in budgets(n, limit, can_be, spent):
        if spent() or (least is not None and sum(b) > least + more):
            return
        found = solve(b)
        if found is not None:
            least = sum(b) if least is None else least
            yield b, found
        elif least is None and (refused := refused + 1) == MOST_REFUSED:
            break
    else:
        return
    first = reduced((limit,) * n, can_be, spent)
    near = () if first is None else (first, *one_more(first, limit)) if more else (first,)
    for b in near:
        if not spent() and (found := solve(b)) is not None:
            yield b, found


def budgets(n: int, limit: int, can_be: Callable[[Budget], bool], spent: Callable[[], bool]) -> Iterator[Budget]:
    """The budgets worth solving, in order; all that can be are among them."""
    least = [0] * n
    if n > ENUMERATED:
        for k in range(n):
            while not spent() and not can_be((*(limit,) * k, least[k], *(limit,) * (n - k - 1))):
                least[k] += 1
                if least[k] > limit:
                    return
        if spent():
            return
    for total in range(sum(least), n * limit + 1):
        yield from shared_out(total, tuple(least), limit)


def shared_out(total: int, least: Budget, limit: int) -> Iterator[Budget]:
    """The budgets of so many loops in all, each axis between its least and the limit, in order."""

    def filled(start: Budget, rest: int) -> Budget:
        """The first budget that begins so: what is left goes to the last axes."""
        tail: list[int] = []
        for low in reversed(least[len(start) :]):
            taken = min(limit - low, rest)
            tail.append(low + taken)
            rest -= taken
        return (*start, *reversed(tail))

    b = filled((), total - sum(least))
    while True:
        yield b
        rest = 0  # loops above the least behind an axis, one of which may move there
        for k in range(len(least) - 1, -1, -1):
            if rest and b[k] < limit:
                b = filled((*b[:k], b[k] + 1), rest - 1)
                break
            rest += b[k] - least[k]
        else:
            return


def reduced(b: Budget, can_be: Callable[[Budget], bool], spent: Callable[[], bool]) -> Budget | None:
    """A budget that can be and of which no loop can be taken away, or not in time; ``None`` if the given one cannot be."""
    if not can_be(b):
        return None
    for k in range(len(b)):
        while b[k] and not spent() and can_be(fewer := (*b[:k], b[k] - 1, *b[k + 1 :])):
            b = fewer
    return b


def one_more(b: Budget, limit: int) -> Iterator[Budget]:
    """The budgets with one loop more over one axis, in order."""
    return ((*b[:k], b[k] + 1, *b[k + 1 :]) for k in range(len(b) - 1, -1, -1) if b[k] < limit)
