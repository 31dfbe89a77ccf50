"""The term language: axes, scalar ops, monoids, terms, programs and their meaning.  Depends on numpy only."""
