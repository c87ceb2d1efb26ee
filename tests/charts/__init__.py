"""The charts, rendered by Helm and judged by the objects that come out."""
