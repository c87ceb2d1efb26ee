"""S12: the two published ways to effectively-once, under the same chain of operators.

*Snapshots*: one query of Spark runs all operators, and all of their states go back together to the last checkpoint
(`query.py`). *Dedup*: each operator is a process of its own between two topics, delivery is at least once, and each
drops by a catalog of its own what it has seen (`stage.py`). The operator is the same code in both (`running.py`).
"""
