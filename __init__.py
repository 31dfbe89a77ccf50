"""EqFuse."""
