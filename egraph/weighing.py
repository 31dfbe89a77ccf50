"""Whether an exchange of two sums is worth it: the engine's answer to ``weigh``, by the sizes of the products of both orders.

sum_j (sum_k f*x) * r has the products f*x and (sum_k f*x)*r, the other order, sum_k f * (sum_j x*r), has x*r and f * (sum_j x*r).  The
sizes are kept as binary logarithms, of every set of axes that somebody asks for: of a mask, its lowest bit's and that of the rest.  The
masks are computed in one rule and looked up in the next, since in one rule the engine would join the table of sizes four times over first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..ir.index import Axis
from .schema import OWN

LEAST = 20.0  # log2: products smaller than this are left in their order
SLACK = 0.0  # log2: so many times larger than the largest old product may the largest new one be


def text() -> str:
    """Tables and rules of the analysis."""
    return f"""
(function axis-log (i64) f64 :merge old)
(function log-size (i64) f64 :merge old)
(function least-log () f64 :merge old)
(relation mask-wanted (i64))
(relation mask-parts (i64 i64 i64))
(relation weighed (T T T i64 i64 i64 i64 i64 i64))
(rule ((mask-wanted m) (!= m 0) (= l (& m (- 0 m))) (= r (- m l))) ((mask-wanted r) (mask-parts m l r)) :ruleset {OWN})
(rule ((mask-parts m l r) (= a (axis-log l)) (= s (log-size r))) ((set (log-size m) (+ s a))) :ruleset {OWN})
(rule ((weigh f x r j k) (= mf (axes f)) (= mx (axes x)) (= mr (axes r)) (!= 0 (& mf k)) (!= 0 (& mx j)) (= a (| mf mx)) \
(= b (| mr (- a (& a k)))) (= c (| mx mr)) (= d (| mf (- c (& c j))))) \
((weighed f x r j k a b c d) (mask-wanted a) (mask-wanted b) (mask-wanted c) (mask-wanted d)) :ruleset {OWN})
(rule ((weighed f x r j k a b c d) (= la (log-size a)) (= lb (log-size b)) (= lc (log-size c)) (= ld (log-size d)) \
(= least (least-log)) (>= (max la lb) least) (<= (max lc ld) (+ (max la lb) {SLACK}))) ((worth f x r j k)) :ruleset {OWN})
""".strip()


def facts(bits: Mapping[Axis, int]) -> list[str]:
    """The sizes of axes, by their bits, and the least that is exchanged: a fact, so that an engine can be used again with another."""
    logs = [f"(set (axis-log {bit}) {float(math.log2(max(axis.size, 1)))})" for axis, bit in bits.items()]
    return [f"(set (least-log) {LEAST})", "(set (log-size 0) 0.0)", *logs]
