"""Published times beside the model's and those by machine code."""
