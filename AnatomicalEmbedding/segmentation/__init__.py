"""Segmentation from a few examples: outlines of an organ in one to ten scans suffice to outline it in other scans."""
