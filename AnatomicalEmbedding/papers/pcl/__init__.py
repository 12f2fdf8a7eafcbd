"""PCL: positional contrastive learning (Zeng et al., MICCAI 2021)."""
