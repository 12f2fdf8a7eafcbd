"""The page: a Vue template for each feature, named after its logic."""
