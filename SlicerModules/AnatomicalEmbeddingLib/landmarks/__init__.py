"""Landmarks: points that the user places in one scan are found in other scans."""
