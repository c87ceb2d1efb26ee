"""The operator's side, without servers."""
