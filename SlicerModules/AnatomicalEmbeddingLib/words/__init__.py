"""Words and places: find the places that typed words name, and name the structure at a point."""
