"""The proof: workload, faults, history, checkers, report, and the adapters they stand on."""
