"""The page of a restored folder."""
