"""HTML reports with slice pictures of matches, boxes, outlines, places and registrations. Each report is one file."""
