"""Landmark sets: named points that are known by examples in several scans, and found in other scans."""
