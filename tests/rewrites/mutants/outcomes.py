"""What the audit of a saturated graph makes of each mutant, as data: what only the rule's check catches, and what both nets do.

Every mutant is refuted by its rule's check; no mutant needs the audit to be found.  Those in ``FINDS`` make an audit fail that names only
the rules that believed the mutant: repair facts, factorings, sign facts and demands carry no provenance.
"""

# the audit passes: the false fact reaches no number of the program, or only at sizes and values that an audit does not draw
SILENT = [
    "below_maximum_of_nothing", "reduction_of_no_nonpos", "size_of_any_constant", "factor_out_of_nothing",
    "nonneg_factor_out_of_selection", "mean_of_nothing", "selection_of_nothing", "late_term_out_of_empty_choice",
    "local_selection_of_nothing", "local_factor_of_any_sum", "seed_factor_of_nonneg", "function_forgotten_at_old",
    "shift_through_log_of_anything", "factor_through_other_maximum", "form_of_shift_at_old", "form_times_running_value",
    "nothing_seen_in_nothing", "nothing_seen_outside", "nothing_seen_negated", "gone_plus", "gone_summed_over_its_own_axis",
    "roll_of_maximum_by_factor", "roll_of_shift_by_factor", "roll_by_form_of_anything", "own_accumulator_of_nothing",
    "reference_of_nothing", "reference_guarded_as_minimum",
]  # fmt: skip

# the audit fails, and names the rules that used the false fact
FINDS = [
    "below_minimum", "maximum_below", "above_maximum", "product_of_two_nonpos", "sum_of_one_nonpos",
    "exponential_of_nonneg", "exponential_of_anything", "mean_of_exponentials", "total_without_reference",
    "inverse_of_small", "logarithm_of_small", "factor_is_anything", "factor_forgets_the_rest", "factor_taken_twice",
    "factor_negated_twice", "term_is_anything", "term_forgets_the_rest", "terms_collected_anyway",
    "local_selection_backwards", "seed_shift_backwards", "seed_function_backwards", "choice_by_reference_backwards",
    "choice_by_reference_from_other_arm", "shift_through_exponential", "shift_not_negated", "shift_not_scaled",
    "factor_is_the_shift", "factor_of_exponential_backwards", "factor_negated_too", "factor_of_one",
    "factor_of_unequal_sum", "factor_of_choice_with_one", "form_without_shift", "form_of_shift_backwards",
    "form_of_product_as_sum", "form_times_factor_forgotten", "product_of_terms_adds", "distribute_once", "sum_of_one_form",
    "any_accumulator_is_own", "other_accumulator_unscaled", "other_accumulator_at_new", "scale_one_term",
    "scale_negation_without_sign", "scale_scaled_forgets", "scale_shifted",
]  # fmt: skip

# the mutant matches nothing in its program, which another rule or a demand keeps from it
IDLE = [
    "product_of_small", "term_out_of_single_choice_always", "views_compose_backwards", "views_compose_inside_out",
    "local_positive_backwards", "merge_by_inverse_factor", "merge_without_factor", "seed_factor_backwards",
    "factor_through_root_of_anything", "factor_not_inverted", "gone_where_not_chosen", "reference_of_factor",
    "exponential_as_sum", "exponential_of_negated_term",
]  # fmt: skip

OUTCOME = {**dict.fromkeys(SILENT, "silent"), **dict.fromkeys(FINDS, "finds"), **dict.fromkeys(IDLE, "idle")}  # else: it blames the mutant
