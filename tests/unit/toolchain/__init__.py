"""Finding and building tools: fakes on PATH, and the files that pin versions. Nothing is built."""
