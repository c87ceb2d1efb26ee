"""What watches a deployment: metrics, rules and dashboard, held against their exporters and the real Prometheus."""
