"""Where pipelines run: processes of this machine or pods of a cluster, behind one protocol."""
