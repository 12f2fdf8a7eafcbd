"""APE: 3-D anatomical positional embeddings (Goncharov et al., MICCAI 2024)."""
