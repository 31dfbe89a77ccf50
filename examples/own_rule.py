"""A rule of your own: written, checked, used, switched off.

python examples/own_rule.py
python -m eqfuse rules check examples/own_rule.py
"""

from eqfuse.rewrites import Axis, Map, NonEmpty, Reduce, Sum, free, rule


@rule(family="mine", licence="exact")
def largest_of_negated(x, k: Axis):
    """max_k (-x) = -min_k x"""
    return Reduce("max", k, Map("neg", x)), Map("neg", Reduce("min", k, x))


@rule(family="mine")
def largest_of_clipped(x, c, k: Axis):
    """max_k (min(x, c)) = min(max_k x, c), for c constant along k"""
    return Reduce("max", k, Map("minimum", x, c)), Map("minimum", Reduce("max", k, x), c), free(c, k), NonEmpty(k)


if __name__ == "__main__":
    import torch

    import eqfuse
    from eqfuse.rewrites import disable, enable

    # Both rules were run on random arrays when they were registered.  Here is the check that says more.
    report = eqfuse.testing.check_rule(largest_of_clipped)
    print(f"{largest_of_clipped.name} holds: {report.examples} examples, {report.numbers} numbers, by {', '.join(report.oracles)}")

    # A false one is refused, with a counterexample.
    try:

        @rule(family="mine")
        def sum_of_products(x, y, k: Axis):
            """sum_k x*y = (sum_k x) * (sum_k y), which is false."""
            return Sum(k, x * y), Sum(k, x) * Sum(k, y)

    except eqfuse.errors.UnsoundRuleError as error:
        print(f"\n{error}\n")

    # Registered rules take part in every optimize(); they can be left out for one call, or switched off by name or family.
    def f(x, c):
        return torch.minimum(x, c[:, None]).amax(-1)

    args = torch.randn(64, 256), torch.randn(64)
    used = {r.rule for r in eqfuse.optimize(f, args, target="h200").graph.report.rules if r.matches}
    print("used:", *sorted(used & {"largest_of_clipped", "largest_of_negated"}))
    eqfuse.optimize(f, args, target="h200", disable=["mine"])
    disable("mine")
    print("switched off:", *(r.name for r in eqfuse.rules("mine")))
    enable("largest_of_clipped")
