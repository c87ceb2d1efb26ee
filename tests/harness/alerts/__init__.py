"""Each alert of the chart `monitoring`, raised on a cluster by a fault: `make acceptance SUITE=alerts`."""
