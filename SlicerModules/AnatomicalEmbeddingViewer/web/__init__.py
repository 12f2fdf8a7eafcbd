"""Answers to HTTP requests: access control, the page itself, uploads, downloads and the gallery."""
