"""Pages a person looks at: pictures of slices, matches, boxes, registrations. Self-contained HTML files."""
