"""Kernels below the plan: nodes, lowering to tile programs, their execution in numpy and the counting of their work."""
