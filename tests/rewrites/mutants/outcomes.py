"""What the audit of a saturated graph makes of each mutant, as data: what only the rule's check catches, and what both nets do.

Every mutant is refuted by its rule's check; no mutant needs the audit to be found.  The audit of the mutant's program fails and names the
mutant alone as the first rule that was wrong, but for these.
"""

# the audit passes: the mutant is true of every program that the other rules leave it (each says why)
SILENT = [
    "product_of_small", "reciprocal_of_product_exactly", "log_of_product_exactly", "factor_out_exactly",
    "merge_by_any_factor", "nonneg_factor_out_of_selection",
    "shift_through_log_of_anything", "factor_through_root_of_anything", "factor_through_other_maximum", "form_times_running_value",
    "roll_by_local_factor", "roll_of_maximum_by_factor", "own_accumulator_by_local_factor", "own_accumulator_of_nothing",
]  # fmt: skip

# the audit fails, and names the rules that make a value of the false fact: the fact is NaN where it is false, and nothing is asked there
FOUND_LATER = {"local_selection_of_nothing": ("factor_of_exponential",)}

OUTCOME = dict.fromkeys(SILENT, "silent") | dict.fromkeys(FOUND_LATER, "finds")  # else: it blames the mutant
