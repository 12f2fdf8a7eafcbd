"""Reports: pictures of slices, matches, boxes, registrations. Self-contained HTML files."""
