"""The policy pack: `pulumi preview --policy-pack infra/policy` runs this file; wiring only."""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path

from pulumi.runtime.proto import analyzer_pb2_grpc

# Pulumi runs this file with only its folder on the path.
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(path) for path in (ROOT, ROOT / "pipelines" / "src") if str(path) not in sys.path]

from infra.plugin import serve  # noqa: E402
from infra.policy.analyzer import Analyzer  # noqa: E402

stop = threading.Event()
serve(partial(analyzer_pb2_grpc.add_AnalyzerServicer_to_server, Analyzer(stop)), stop)
