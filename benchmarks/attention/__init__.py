"""Attention in all its kinds as plain PyTorch, and the table of what is planned for each."""
