"""Words to places: a search for what words name, and the name of what lies at a point."""
