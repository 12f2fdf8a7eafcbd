"""The section "Segment the rest like these": learns from the outlines of a few scans and outlines other scans."""
