"""What runs on the machine with the GPU, copied into the folder beside the kernels: it needs torch, triton and Python 3.11, nothing else."""
