"""The machine at hand, measured: what the cost model has to know of a CPU (``eqfuse calibrate``)."""
