"""The checks of a declared op: :mod:`.check` of its meaning, range and traits, :mod:`.spelling` of how it is spelled in Triton."""
