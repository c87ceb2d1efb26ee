"""Every version of this deployment, one per line.

Committed `pom.xml`, `go.mod` and `requirements.*` files own theirs, because their tools read them; a test compares
them with this file, so a version is changed in both or the build is red. This module imports nothing of ours.
"""

from __future__ import annotations

from typing import Final

# What the machine has to bring. Lower bounds, inclusive.
PYTHON_MIN: Final = (3, 11)
JDK_MIN: Final = 17
GO_MIN: Final = (1, 21)  # the first one that fetches a newer toolchain by itself

# Spark and the jars beside it (infra/toolchain/jars/spark/pom.xml)
SPARK: Final = "4.2.0"
KAFKA_CONNECTOR: Final = "4.2.0"
# The connector's pom asks for 4.2.0, which not every mirror serves; 4.0.0 has what the connector calls.
KAFKA_TOKEN_PROVIDER: Final = "4.0.0"  # noqa: S105 - a module, not a secret
KAFKA_CLIENTS: Final = "3.9.2"  # what the connector was built with; newer brokers accept it
COMMONS_POOL2: Final = "2.13.1"
AWS_SDK: Final = "2.35.4"

# Spark's event logs on a cluster (infra/toolchain/jars/s3a/pom.xml)
HADOOP_AWS: Final = "3.5.0"  # as the Hadoop client that pyspark ships
ANALYTICS_ACCELERATOR: Final = "1.3.1"

# The Kafka broker (infra/toolchain/jars/kafka/pom.xml)
KAFKA_BROKER: Final = "4.3.1"
JMX_AGENT: Final = "1.0.1"  # metrics of it (infra/toolchain/jars/jmx/pom.xml); no later one is served everywhere
SLF4J_SIMPLE: Final = "1.7.36"  # the binding must be of the slf4j-api line that the broker brings

# The object store (infra/toolchain/wrappers/minio/go.mod). This commit holds the quorum fix of conditional puts.
MINIO: Final = "v0.0.0-20260212201848-7aac2a2c5b7c"

# Kubernetes and what runs it here (infra/toolchain/wrappers/*/go.mod)
KUBERNETES: Final = "1.36.3"
ETCD: Final = "3.6.14"
COREDNS: Final = "1.14.7"
KIND: Final = "0.33.0"
LOCAL_PATH_PROVISIONER: Final = "0.0.30"
PAUSE: Final = "3.10.1"  # the name kubeadm gives the sandbox image; the program in it is ours
SPARK_OPERATOR: Final = "2.5.2"
SPARK_OPERATOR_CRDS: Final = f"# Made from Spark operator {SPARK_OPERATOR}"  # first line of its definitions
HELM: Final = "4.3.1"  # renders the charts in tests; a deployment does not need it

# What watches a deployment (infra/toolchain/wrappers/*/go.mod)
PROMETHEUS: Final = "3.16.0"  # its module is tagged v0.316.0
ALERTMANAGER: Final = "0.31.1"  # modules of 0.32 to 0.35 lack the built pages that their code embeds, and do not build

DEBIAN: Final = "bookworm"  # of all images; its systemd is the last that starts on cgroup v1

# Pulumi: command line, its Python package and its Kubernetes provider (requirements.in, wrappers)
PULUMI: Final = "3.259.0"
PULUMI_KUBERNETES: Final = "4.25.0"

# Build tools
JAVA_RELEASE: Final = 17  # byte code level of our own classes
GO_WHEEL: Final = "1.27.3"  # infra/toolchain/go_wheel/requirements.lock; used where there is no Go
MAVEN_DEPENDENCY_PLUGIN: Final = "3.6.1"


def of_run() -> dict[str, str]:
    """Return the versions that belong into the manifest of a run, by component."""
    return {
        "spark": SPARK,
        "kafka_connector": KAFKA_CONNECTOR,
        "kafka_clients": KAFKA_CLIENTS,
        "kafka_broker": KAFKA_BROKER,
        "minio": MINIO,
        "aws_sdk": AWS_SDK,
    }
