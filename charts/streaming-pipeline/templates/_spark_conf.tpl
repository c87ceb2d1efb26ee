{{- /* Spark's settings by this chart; what `sparkConf` says wins over them. */}}
{{- define "spark-conf" -}}
# The Kafka connector, S3A and our checkpoint manager. They belong on the class path of the JVM itself: the plugins
# that Spark loads early do not see what `--jars` adds.
spark.driver.extraClassPath: /opt/effectively-once/jars/*
spark.executor.extraClassPath: /opt/effectively-once/jars/*

# A fixed number of executors: shards are fixed, and so is what they cost.
spark.dynamicAllocation.enabled: "false"
# A kill campaign must not make the driver give up; by default it does after twice as many losses as executors.
spark.executor.maxNumFailures: "1000"
spark.executor.failuresValidityInterval: 1h

# A lost executor is noticed by its closed connection. These bound how long it takes where that hangs, and how long
# the replacement is waited for (defaults: polled every 30 s, missing for 30 s).
spark.kubernetes.allocation.batch.delay: 1s
spark.kubernetes.executor.apiPollingInterval: 5s
spark.kubernetes.executor.missingPodDetectDelta: 10s
# Polls are answered from the API server's cache, so that they may be frequent.
spark.kubernetes.executor.enablePollingWithResourceVersion: "true"
# A deleted pod's address answers nothing, not even a refusal: who fetches its shuffle files would wait for half a minute
# before the stage is repeated.
spark.shuffle.io.connectionCreationTimeout: 3s
spark.rpc.io.connectionCreationTimeout: 5s
# Executors look the driver up by name, which is in DNS once its pod is ready: on a busy node later than 1 s.
spark.kubernetes.allocation.driver.readinessTimeout: 10s
# Spark's own defaults in pods, but for an executor's blocks, whose port would be any: NetworkPolicies name ports.
spark.driver.port: "7078"
spark.driver.blockManager.port: "7079"
spark.blockManager.port: "7079"
{{- if not .Values.networkPolicies.enabled }}
# Spark's own policy, which closes executors to all but their application, goes with ours.
spark.kubernetes.driver.pod.excludedFeatureSteps: org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep
{{- end }}
# Dead executors go away at once. Their logs go with them: set it to false for a post-mortem, and clean up by hand.
spark.kubernetes.executor.deleteOnTermination: "true"
# What a driver leaves is owned by its pod and goes with it; so it needs no rights on Services and volumes.
spark.kubernetes.driver.service.deleteOnTermination: "false"
spark.kubernetes.driver.ownPersistentVolumeClaim: "false"
spark.kubernetes.driver.reusePersistentVolumeClaim: "false"
# Executors have all settings from their driver; the image reads no folder of them. So none on ConfigMaps either.
spark.kubernetes.executor.disableConfigMap: "true"
# Somebody has to see how it ends: the operator, by the driver's pod.
spark.kubernetes.submission.waitAppCompletion: "false"

# Epochs of some 20,000 rows: compiling a plan takes longer than interpreting it.
spark.sql.codegen.wholeStage: "false"
spark.sql.codegen.factoryMode: NO_CODEGEN
# The image is read-only, and there are no tables.
spark.sql.warehouse.dir: file:///tmp/warehouse
spark.ui.enabled: {{ .Values.ui | quote }}
{{- if .Values.sparkSecret }}

# Whoever reaches a port has to know the secret, which is a file: as a setting it would be in a pod's variables.
spark.authenticate: "true"
spark.authenticate.secret.file: /var/run/effectively-once/spark/rpc
spark.network.crypto.enabled: "true"
spark.network.crypto.authEngineVersion: "2"
spark.network.crypto.cipher: AES/GCM/NoPadding
spark.network.crypto.saslFallback: "false"
spark.ui.filters: org.effectivelyonce.ui.PasswordFilter
spark.org.effectivelyonce.ui.PasswordFilter.param.file: /var/run/effectively-once/spark/page
{{- end }}
{{- if .Values.eventLog.enabled }}

# For the history server. A stream has no end, so the log is cut into files, each of which is readable when it is
# closed; credentials come from the environment.
spark.eventLog.enabled: "true"
spark.eventLog.dir: s3a://{{ .Values.eventLog.bucket | default .Values.settings.s3_bucket }}/{{ include "event-log-folder" . }}
spark.eventLog.rolling.enabled: "true"
spark.eventLog.rolling.maxFileSize: 10m
spark.hadoop.fs.s3a.endpoint: {{ .Values.settings.s3_endpoint }}
spark.hadoop.fs.s3a.endpoint.region: {{ .Values.s3.region }}
spark.hadoop.fs.s3a.path.style.access: "true"
spark.hadoop.fs.s3a.connection.ssl.enabled: {{ hasPrefix "https://" .Values.settings.s3_endpoint | quote }}
spark.hadoop.fs.s3a.aws.credentials.provider: {{ include "s3a-credentials" . }}
{{- end }}
{{- end }}

{{- define "whole-spark-conf" -}}
{{- merge (dict) .Values.sparkConf (include "spark-conf" . | fromYaml) | toYaml }}
{{- end }}

{{- define "event-log-folder" -}}
spark-events{{ with .Values.eventLog.folder }}/{{ . }}{{ end }}
{{- end }}

{{- /*
The library sets some things for quick starts (no UI) after the submitted ones; this variable has the last word, except
over what exactly-once needs. The class path is the submitted one: declarations pin its jars before there is a JVM.
*/}}
{{- define "session-conf" -}}
{{- $path := index (include "spark-conf" . | fromYaml) "spark.driver.extraClassPath" }}
{{- $own := dict "spark.ui.enabled" (toString .Values.ui) "spark.driver.extraClassPath" $path }}
{{- merge (dict) .Values.sparkConf $own | toJson }}
{{- end }}

{{- /* Quick start and small memory count for more than peak speed. */}}
{{- define "jvm-options" -}}
-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -XX:-UsePerfData
{{- if .Values.kafkaClient.mechanism }} -Djava.security.auth.login.config=/var/run/effectively-once/kafka/jaas.conf{{ end }}
{{- end }}
