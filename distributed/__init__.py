"""Programs across devices."""
