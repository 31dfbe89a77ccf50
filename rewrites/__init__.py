"""Rewrite rules: equations that check themselves."""
