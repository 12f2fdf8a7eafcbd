"""Answers to requests of the page: who may ask, the page itself, uploads, downloads and the gallery."""
