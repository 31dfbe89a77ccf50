"""A rule of your own: written, checked, used.

    python -m eqfuse rules check examples/own_rule.py
"""

from eqfuse.errors import UnsoundRuleError
from eqfuse.rewrites.patterns import Map, Reduce, Sum
from eqfuse.rewrites.registry import unregister
from eqfuse.rewrites.rule import Axis, rule


@rule(family="mine", licence="exact")
def largest_of_negated(x, k: Axis):
    """max_k (-x) = -min_k x"""
    return Reduce("max", k, Map("neg", x)), Map("neg", Reduce("min", k, x))


if __name__ == "__main__":
    import eqfuse

    eqfuse.testing.check_rule(largest_of_negated)
    print(f"{largest_of_negated.name} holds; it is one of {len(eqfuse.rules())} rules now")

    @rule(family="mine", licence="real")
    def sum_of_products(x, y, k: Axis):
        """sum_k x*y = (sum_k x) * (sum_k y), which is false."""
        return Sum(k, x * y), Sum(k, x) * Sum(k, y)

    try:
        eqfuse.testing.check_rule(sum_of_products)
    except UnsoundRuleError as error:
        print(error)
    finally:
        unregister("sum_of_products")
