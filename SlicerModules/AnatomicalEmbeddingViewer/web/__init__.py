"""What the network sees: who is let in, uploads, downloads, and the page itself."""
