"""SAM: self-supervised anatomical embedding (Yan et al., IEEE TMI 2022)."""
