"""Starts a job: `job.py <module> <arguments>`. A SparkApplication names a file, our jobs are modules of the wheel."""

import runpy
import sys

if len(sys.argv) < 2:
    sys.exit("job.py: the first argument is the module to run, for example effectively_once_jobs.user_counts")
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
