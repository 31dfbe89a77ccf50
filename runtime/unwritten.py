"""Bits that stand for memory that nothing has written: allocations are filled with them, loads and results are searched for them.

No computation makes them: they are NaNs with a payload of their own, and integers that are unlikely enough.
"""

UNWRITTEN = {
    "float16": 0x7EED,
    "bfloat16": 0x7FED,
    "float32": 0x7FEDFEED,
    "float64": 0x7FFDEEDF7FEDFEED,
    "int32": 0x5EEDFEED,
    "int64": 0x5EEDFEED5EEDFEED,
}
"""By torch's name of the type.  Types of one byte have no bits to spare."""

UNINITIALISED = "uninitialised"
"""Among the places of loads: wherever what is loaded is what nothing has written."""
