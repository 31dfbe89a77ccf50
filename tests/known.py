"""Tests that fail for a known reason, each with its cause: strict, so that one that passes again has to leave the list.

What stands here is no bound that was loosened: the test says what should be, and nobody may add to it in silence.
"""

JOINED = (
    "read off the kernel of the sinks, inferred for the others: a value beside the tiles of a loop (a sink, a part of a concatenation) takes part in the reference of its exponentials: "
    "tiles/finish/references does not see that they are at most 1, and so the product runs in tf32, and each takes two instructions more"
)
OCCUPIED = "a kernel of many rows by a long vocabulary on this device is priced by what shared memory lets through: tiles shrink, rows are read again"
UNSEEN = "red since before all tests were run together; the cause is not known"

KNOWN = {
    "e2e/test_compile.py::test_compiles_within_limits[linear_cross_entropy_few_rows-sm_90-float32]": "16 bytes spill: candidates next to the limit of registers win ties",
    "e2e/test_gathers.py::test_bytes_are_those_of_the_rows_that_are_read": UNSEEN,
    "e2e/test_gathers.py::test_a_loop_that_reads_the_row_anyway_selects_from_it": UNSEEN,
    "e2e/test_joins.py::test_a_rotary_embedding_costs_what_its_index_form_costs[pairs]": JOINED,
    "e2e/test_joins.py::test_sinks_cost_attention_nothing": JOINED,
    "e2e/test_joins.py::test_a_cache_is_read_where_it_is[1]": JOINED,
    "e2e/test_joins.py::test_a_cache_is_read_where_it_is[512]": JOINED,
    "e2e/test_joins.py::test_heads_that_are_flattened_and_normalised": UNSEEN,
    "e2e/test_joins.py::test_a_product_that_is_flattened_and_normalised_is_computed_once": UNSEEN,
    "e2e/test_numerics.py::test_differences_come_before_products[attention in parts]": UNSEEN,
    "e2e/test_numerics.py::test_differences_come_before_products[masked, in parts]": UNSEEN,
    "e2e/test_one_pass.py::test_one_pass_has_the_digits_of_two[plain-coskewness]": "3.9e-6 where two passes keep 1.7e-6: moments of two variables are not counted from elements",
    "e2e/test_picked_and_positions.py::test_other_comparisons_leave_every_form": UNSEEN,
    "extract/test_launches.py::test_the_price_of_one_launch": UNSEEN,
    **{
        f"e2e/test_required.py::test_one_kernel_by_default[{device}-{dtype}]": OCCUPIED
        for device in ("a100", "mi300x")
        for dtype in ("float16", "bfloat16", "float32")
    },
    "e2e/test_scans.py::test_few_long_rows_fill_the_device[softmax]": UNSEEN,
    "e2e/test_scans.py::test_a_state_space_model_by_chunks": UNSEEN,
    "extract/test_split_choice.py::test_two_axes_of_one_program_are_split": UNSEEN,
    "e2e/test_targets_interpret.py::test_kernels_and_passes[attention_decode-h100]": UNSEEN,
    "e2e/test_targets_interpret.py::test_kernels_and_passes[attention_decode-mi300x]": UNSEEN,
    "e2e/test_targets_interpret.py::test_kernels_and_passes[linear_cross_entropy-mi300x]": OCCUPIED,
}
