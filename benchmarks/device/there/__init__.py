"""What runs on the machine with the GPU, copied into the folder beside the kernels: torch, triton and Python 3.11 suffice."""
