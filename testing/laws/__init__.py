"""Laws of planning: relations between plans that hold whatever a program means, so that no data, oracle or device is needed.

Programs that mean the same cost the same, a whole costs no more than its parts, n layers no more than n times one, the plan for time no
more than the plan for memory.  A violation is a fault of the rules, of the search or of the model of time.

    python -m eqfuse.testing.laws              # the fixed set; --family layers, --target cpu
    python -m eqfuse.testing.laws --drawn 1 40 # 39 random chains of blocks, a law of each

:mod:`.law` says what a law is, :mod:`.fixed` has the fixed set, :mod:`.drawn` the random chains, :mod:`.ratchet` the known violations.
"""
