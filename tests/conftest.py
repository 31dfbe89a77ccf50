"""Every e-graph that a test saturates through ``optimize`` is audited: each class must agree with itself in numbers."""

import os

os.environ["EQFUSE_AUDIT"] = "1"
