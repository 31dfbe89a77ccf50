"""The day of a GPU: kernels, plans and checks are written into a folder, run there by torch and triton alone, and compared here."""
