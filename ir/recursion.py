"""Recursion over programs without recursion of Python: a program may be longer than the interpreter's stack is deep.

Five forms, by what a step needs to know of those below it:

- :func:`arguments_first`: every node below some, arguments before users; for whoever can say in one line what a node is of its arguments.
- :func:`evaluated`: the value of one node, where some nodes are known without their arguments.
- :func:`by_arguments`: a decorator for a function of nodes that calls itself for arguments, and stops early where it can.
- :class:`Retried`: the same for functions that ask each other for anything, if to try again what was interrupted does no harm.
- :func:`completed`: runs generators that yield what they ask of each other, for mutual recursion that makes things on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, MutableMapping
from functools import wraps
from types import GeneratorType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

N = TypeVar("N", bound=Hashable)
T = TypeVar("T")
P = ParamSpec("P")

Steps = Generator[Any, Any, T]  # yields requests, :data:`Steps` again or values that need no work, and is sent what they give

DEEP = 25  # calls of one function inside each other, after which what is below comes first


def arguments_first(roots: Iterable[N], args: Callable[[N], Iterable[N]], done: Callable[[N], bool] = lambda n: False) -> list[N]:
    """Every node below the roots, arguments before users, each once; not below what is ``done``."""
    seen: set[N] = set()
    out: list[N] = []
    stack = [(r, False) for r in reversed(tuple(roots))]
    while stack:
        n, ready = stack.pop()
        if ready:
            out.append(n)
        elif n not in seen and not done(n):
            seen.add(n)
            stack.append((n, True))
            stack.extend((a, False) for a in reversed(tuple(args(n))))
    return out


def evaluated(
    root: N, args: Callable[[N], Iterable[N]], leaf: Callable[[N], T | None], apply: Callable[[N, list[T]], T], memo: MutableMapping[N, T]
) -> T:
    """The value of a node in any domain: what ``leaf`` answers where it does, else ``apply`` of the values of its arguments.  ``memo``
    keeps what was found."""
    stack = [root]
    while stack:
        n = stack[-1]
        if n not in memo:
            found = leaf(n)
            if found is None:
                below = list(args(n))
                waiting = [a for a in reversed(below) if a not in memo]
                if waiting:
                    stack.extend(waiting)
                    continue
                found = apply(n, [memo[a] for a in below])
            memo[n] = found
        stack.pop()
    return memo[root]


class Nodes(Protocol):
    """What :func:`by_arguments` needs of the object that a function asks: the arguments of a node, answers so far, and how deep it is."""

    memo: dict[Any, Any]
    depth: int

    def below(self, node: int) -> tuple[int, ...]:
        """The arguments of a node."""


Asked = TypeVar("Asked", bound=Nodes)


def by_arguments(f: Callable[Concatenate[Asked, int, P], T]) -> Callable[Concatenate[Asked, int, P], T]:
    """``f(nodes, node, ...)``, which asks itself for arguments of the node, as a function that remembers and is never deep.

    What it does not ask for is not computed, unless the nodes are many; then it must know an answer for every node.
    """

    @wraps(f)
    def asked(nodes: Asked, node: int, *rest: P.args, **named: P.kwargs) -> T:
        memo = nodes.memo
        more = (*rest, *named.values())
        key = (f, node, *more)
        if key not in memo:
            if nodes.depth > DEEP:
                for x in arguments_first(nodes.below(node), nodes.below, lambda x: (f, x, *more) in memo):
                    memo[f, x, *more] = f(nodes, x, *rest, **named)
            nodes.depth += 1
            try:
                memo[key] = f(nodes, node, *rest, **named)
            finally:
                nodes.depth -= 1
        found: T = memo[key]
        return found

    return asked


class _Deep(Exception):
    """What is wanted is too far inside others: it is to come first, and then they are tried again."""

    def __init__(self, wanted: tuple[Any, ...]) -> None:
        super().__init__()
        self.wanted = wanted


class Retried:
    """Answers of functions that ask for each other's by calling this, each remembered in ``memo`` by the function and what it was asked.

    A question that is too deep interrupts those who asked, is answered first, and they are tried again: then they find the answer.
    """

    def __init__(self) -> None:
        self.memo: dict[tuple[Any, ...], Any] = {}
        self._depth = 0

    def __call__(self, f: Callable[..., T], *asked: Any) -> T:
        wanted = (f, *asked)
        if wanted in self.memo:
            return self.memo[wanted]
        if self._depth:
            return self._answered(wanted)
        todo = [wanted]
        while True:
            try:
                answer: T = self._answered(todo[-1])
            except _Deep as deep:
                todo.append(deep.wanted)
                continue
            todo.pop()
            if not todo:
                return answer

    def forget(self, which: Callable[[Any], bool]) -> None:
        """Answers that are to be found again."""
        self.memo = {wanted: answer for wanted, answer in self.memo.items() if not which(answer)}

    def _answered(self, wanted: tuple[Any, ...]) -> Any:
        if wanted not in self.memo:
            if self._depth >= DEEP:
                raise _Deep(wanted)
            self._depth += 1
            try:
                f, *asked = wanted
                self.memo[wanted] = f(*asked)
            finally:
                self._depth -= 1
        return self.memo[wanted]


def completed(steps: Steps[T]) -> T:
    """What a generator returns, each request that it yields completed and sent back to it.  An error goes up through those who asked."""
    stack: list[Any] = []
    request: Any = steps
    while True:
        if isinstance(request, GeneratorType):
            stack.append(request)
            answer: Any = None
        elif stack:
            answer = request
        else:
            return request
        try:
            request = stack[-1].send(answer)
        except StopIteration as end:
            stack.pop()
            request = end.value
