"""What kernels for a CPU take: ``python -m benchmarks.cpu``, from the root of the repository."""
