"""Programs of public repositories, read from checkouts: what they compute, and nothing of theirs is kept here."""
