"""How well one number ranks another: Spearman's correlation, and what a choice by it costs."""

import itertools
import statistics

NEAR = 2.0  # times as long as the best
APART = 1.05  # times that differ by this factor are worth to be told apart


def ranks(values):
    """The rank of each, ties sharing theirs."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    out, i = [0.0] * len(values), 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
            j += 1
        for k in order[i : j + 1]:
            out[k] = (i + j) / 2
        i = j + 1
    return out


def spearman(a, b):
    """Rank correlation; 0 where one of them says nothing."""
    a, b = ranks(a), ranks(b)
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return statistics.correlation(a, b)


def near(us, model):
    """Those of both whose time is at most twice the best."""
    found = [(u, m) for u, m in zip(us, model, strict=True) if u <= NEAR * min(us)]
    return [u for u, _ in found], [m for _, m in found]


def regret(us, model):
    """The time of the model's choice over that of the best."""
    return us[model.index(min(model))] / min(us)


def in_order(us, model):
    """Of all pairs whose times differ by 5 % or more, the share that the model has in the right order."""
    pairs = [(a, b) for a, b in itertools.combinations(zip(us, model, strict=True), 2) if max(a[0], b[0]) > APART * min(a[0], b[0])]
    return sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs) / len(pairs) if pairs else 1.0


def judged(programs, key, by):
    """What the number under ``key`` is worth beside that under ``by``, for the rows of some programs: how many there are, mean correlation,
    the same near the best, pairs in order, regret, and ``by`` over ``key``."""
    whole, close, ordered, regrets, ratios = [], [], [], [], []
    for rows in programs.values():
        us, model = [r[by] for r in rows], [r[key] for r in rows]
        whole.append((len(rows), spearman(model, us)))
        a, b = near(us, model)
        close.append((len(a), spearman(b, a)))
        ordered.append((len(rows), in_order(us, model)))
        regrets.append(regret(us, model))
        ratios += [u / m for u, m in zip(us, model, strict=True)]
    mean = [sum(k * x for k, x in found) / sum(k for k, _ in found) for found in (whole, close, ordered)]
    return len(ratios), *mean, statistics.geometric_mean(regrets), statistics.median(ratios)
