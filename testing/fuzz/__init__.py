"""The project's own fuzzers: random programs through every stage, each checked against the reference.

    python -m eqfuse.testing.fuzz 0 1000 --interpret 10

:mod:`.grammar` draws programs over the whole language, :mod:`.whole_path` takes one through every stage, :mod:`.lowering` through lowering
and printing alone; :mod:`.conditioning` says how far rounding may move a result, :mod:`.watchdog` ends what does not end,
:mod:`.log` keeps what was done, program by program.
"""
