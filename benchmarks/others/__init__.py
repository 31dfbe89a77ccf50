"""What the kernels of other people's libraries should compute: for each library, functions of it beside references in torch."""
