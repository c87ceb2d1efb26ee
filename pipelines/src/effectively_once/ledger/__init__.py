"""The chain: one object per pipeline, changed by conditional puts only, that orders epochs and fences drivers."""
