{{- define "selector" -}}
app.kubernetes.io/name: streaming-pipeline
effectively-once/pipeline: {{ .Values.name }}
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/part-of: effectively-once
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Where pods may run, and with which credentials their images are pulled. */}}
{{- define "scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* No CPU limit: throttling looks like a fault. */}}
{{- define "resources" -}}
requests:
  cpu: {{ .cpuRequest }}
  memory: {{ .memoryRequest }}
limits:
  memory: {{ .memoryLimit }}
{{- end }}

{{- define "pod-security" -}}
runAsNonRoot: true
runAsUser: 185
runAsGroup: 185
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* How broker and stores are spoken to, for every pod of the pipeline. */}}
{{- define "credentials" -}}
{{- include "s3-env" . }}
{{- with .Values.databaseSecret }}
{{ include "secret-variable" (dict "key" "PGUSER" "secret" .) }}
{{ include "secret-variable" (dict "key" "PGPASSWORD" "secret" .) }}
{{- end }}
{{- with .Values.databaseClient.mode }}
- name: PGSSLMODE
  value: {{ . }}
{{- end }}
{{- if .Values.databaseClient.certificates }}
- name: PGSSLROOTCERT
  value: /var/run/effectively-once/database/ca.crt
{{- end }}
{{- with .Values.kafkaClient }}
{{- if ne .protocol "PLAINTEXT" }}
- name: KAFKA_SECURITY_PROTOCOL
  value: {{ .protocol }}
{{- with .mechanism }}
- name: KAFKA_SASL_MECHANISM
  value: {{ . }}
{{- end }}
{{- if .secret }}
- name: KAFKA_CREDENTIALS
  value: /var/run/effectively-once/kafka
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "client-mounts" -}}
{{- include "s3-mounts" . }}
{{- if .Values.kafkaClient.secret }}
- name: kafka
  mountPath: /var/run/effectively-once/kafka
  readOnly: true
{{- end }}
{{- if .Values.databaseClient.certificates }}
- name: database-certificates
  mountPath: /var/run/effectively-once/database
  readOnly: true
{{- end }}
{{- end }}

{{- define "client-volumes" -}}
{{- include "s3-volumes" . }}
{{- with .Values.kafkaClient.secret }}
- name: kafka
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .Values.databaseClient.certificates }}
- name: database-certificates
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}

{{- /* Settings as a file: integers that YAML made into floats are written as integers again. */}}
{{- define "as-json" -}}
{{- $settings := dict }}
{{- range $key, $value := . }}
{{- if and (kindIs "float64" $value) (eq (floor $value) $value) }}
{{- $value = int64 $value }}
{{- end }}
{{- $_ := set $settings $key $value }}
{{- end }}
{{- $settings | toPrettyJson }}
{{- end }}

{{- /* What the pipeline's program reads. */}}
{{- define "settings-json" -}}
{{ include "as-json" (merge (dict) .Values.jobSettings .Values.settings) }}
{{- end }}

{{- /* Environment of driver and executors alike. */}}
{{- define "spark-env" -}}
{{- include "credentials" . }}
- name: EFFECTIVELY_ONCE_WHEEL_DIGEST
  value: {{ .Values.wheelDigest | quote }}
# Declarations name it to whoever has to bring it back.
- name: EFFECTIVELY_ONCE_IMAGE
  value: {{ .Values.image | quote }}
{{- if .Values.announce }}
# The standard output of the container's first process: announcements are lines of the container's log.
- name: EFFECTIVELY_ONCE_EVENTS
  value: /proc/1/fd/1
{{- end }}
{{- range $name, $value := .Values.environment }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- with .Values.secretEnvironment }}
{{- $secret := .secret }}
{{- range .variables }}
{{ include "secret-variable" (dict "key" . "secret" $secret) }}
{{- end }}
{{- end }}
{{- range $name, $from := .Values.secrets }}
{{ include "secret-variable" (dict "name" $name "key" $from.key "secret" $from.secret) }}
{{- end }}
{{- include "extra-path" . }}
{{- end }}

{{- define "extra-path" -}}
{{- if .Values.extraFiles }}
# The image's own path, behind the files of the ConfigMap.
- name: PYTHONPATH
  value: /opt/effectively-once/extra:/opt/effectively-once/python:/opt/effectively-once/packages
{{- end }}
{{- end }}

{{- define "extra-mount" -}}
{{- if .Values.extraFiles }}
- name: extra
  mountPath: /opt/effectively-once/extra
  readOnly: true
{{- end }}
{{- end }}

{{- define "extra-volume" -}}
{{- if .Values.extraFiles }}
- name: extra
  configMap:
    name: {{ .Values.name }}-extra
    items:
      {{- range $name, $_ := .Values.extraFiles }}
      # A key of a ConfigMap holds no slash: dots before the suffix stand for folders.
      - key: {{ $name }}
        path: {{ printf "%s.%s" (trimSuffix (ext $name) $name | replace "." "/") (trimPrefix "." (ext $name)) }}
      {{- end }}
{{- end }}
{{- end }}

{{- /* Mounts of driver and executors alike. Spark adds its local folders itself. */}}
{{- define "spark-secret-mount" -}}
{{- if .Values.sparkSecret }}
- name: spark-secret
  mountPath: /var/run/effectively-once/spark
  readOnly: true
{{- end }}
{{- end }}

{{- define "spark-secret-volume" -}}
{{- with .Values.sparkSecret }}
- name: spark-secret
  secret:
    secretName: {{ .secret }}
{{- end }}
{{- end }}

{{- define "spark-mounts" -}}
- name: settings
  mountPath: /etc/effectively-once
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- include "client-mounts" . }}
{{- include "extra-mount" . }}
{{- end }}

{{- define "spark-volumes" -}}
- name: settings
  configMap:
    name: {{ .Values.name }}-settings
- name: tmp
  emptyDir: {}
{{- include "client-volumes" . }}
{{- include "extra-volume" . }}
{{- end }}

{{- /*
Pod template of driver or executor: (dict "root" $ "container" "spark-kubernetes-driver" "grace" 30 "token" true
"priorityClass" "..." "env" "...").
The operator hands it to Spark as a file, which fills in image, command, resources and its own volumes. A change of
settings or secret variables changes an annotation, hence the SparkApplication, hence the operator starts it anew.
*/}}
{{- define "spark-pod" -}}
{{- $root := .root -}}
metadata:
  labels: {{- include "labels" $root | nindent 4 }}
  annotations:
    checksum/config: {{ include (print $root.Template.BasePath "/configmaps.yaml") $root | sha256sum }}
    {{- with $root.Values.secretEnvironment }}
    checksum/secret-environment: {{ .version | quote }}
    {{- end }}
    {{- with $root.Values.sparkSecret }}
    checksum/spark-secret: {{ .version | quote }}
    {{- end }}
    {{- with $root.Values.kafkaClient.version }}
    checksum/kafka-client: {{ . | quote }}
    {{- end }}
    {{- with $root.Values.s3.version }}
    checksum/object-store: {{ . | quote }}
    {{- end }}
    {{- with $root.Values.databaseClient.version }}
    checksum/database: {{ . | quote }}
    {{- end }}
    {{- with .metricsPort }}
    # What Prometheus' usual discovery of pods looks for.
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ . | quote }}
    {{- end }}
spec:
  # Only the driver speaks to Kubernetes.
  automountServiceAccountToken: {{ .token }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace }}
  {{- with .priorityClass }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- if and .token $root.Values.settings.standby }}
  # A node that is lost should not take both drivers.
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels: {{- include "selector" $root | nindent 16 }}
                spark-role: driver
  {{- end }}
  securityContext: {{- include "pod-security" $root | nindent 4 }}
  {{- with include "scheduling" $root }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: {{ .container }}
      # Relative paths are scratch: the image itself is read-only.
      workingDir: /tmp
      env: {{- include "spark-env" $root | nindent 8 }}
        {{- with .env }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with .metricsPort }}
        - name: EFFECTIVELY_ONCE_METRICS_PORT
          value: {{ . | quote }}
        {{- end }}
      securityContext: {{- include "container-security" $root | nindent 8 }}
      volumeMounts: {{- include "spark-mounts" $root | nindent 8 }}
        {{- include "spark-secret-mount" $root | nindent 8 }}
  volumes: {{- include "spark-volumes" $root | nindent 4 }}
    {{- include "spark-secret-volume" $root | nindent 4 }}
{{- end }}

{{- /*
A command of the library in the pipeline's own image, because the declaration in it says which topics, tables and files
there are: (dict "root" $ "command" "create" "args" "- --replication=1").
*/}}
{{- define "command-pod" -}}
{{- $command := .command -}}
{{- $args := .args -}}
{{- with .root -}}
serviceAccountName: {{ .Values.name }}
automountServiceAccountToken: false
enableServiceLinks: false
restartPolicy: Never
securityContext: {{- include "pod-security" . | nindent 2 }}
{{- with include "scheduling" . }}
{{ . }}
{{- end }}
containers:
  - name: {{ $command }}
    image: {{ .Values.image }}
    imagePullPolicy: {{ .Values.imagePullPolicy }}
    command: [/usr/bin/tini, --, python3, -m, effectively_once, {{ $command }}]
    args:
      # It knows the library's settings alone.
      - /etc/effectively-once/{{ if .Values.jobSettings }}create{{ else }}settings{{ end }}.json
      {{- $args | nindent 6 }}
    env: {{- include "credentials" . | nindent 6 }}
      {{- include "extra-path" . | nindent 6 }}
    resources: {{- include "resources" .Values.createResources | nindent 6 }}
    securityContext: {{- include "container-security" . | nindent 6 }}
    volumeMounts:
      - name: settings
        mountPath: /etc/effectively-once
        readOnly: true
      {{- include "client-mounts" . | nindent 6 }}
      {{- include "extra-mount" . | nindent 6 }}
volumes:
  - name: settings
    configMap:
      name: {{ .Values.name }}-settings
  {{- include "client-volumes" . | nindent 2 }}
  {{- include "extra-volume" . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Makes bucket, topics and tables; another image may declare others, so the job runs again. */}}
{{- define "create-pod" -}}
{{- include "command-pod" (dict "root" . "command" "create" "args" (include "create-args" . | trim)) }}
{{- end }}

{{- define "create-args" }}
{{- if .Values.jobSettings }}
- --whole=/etc/effectively-once/settings.json
{{- end }}
- --replication={{ .Values.source.replication }}
- --deadline-s={{ .Values.createDeadlineS }}
{{- if .Values.source.create }}
- --source-partitions={{ .Values.source.partitions }}
{{- end }}
{{- if .Values.eventLog.enabled }}
- --event-log-bucket={{ .Values.eventLog.bucket | default .Values.settings.s3_bucket }}
{{- if .Values.eventLog.folder }}
# An image of before does not know it.
- --event-log-folder={{ include "event-log-folder" . }}/
{{- end }}
{{- end }}
{{- end }}

{{- /*
A Job's pod cannot be changed, so its name follows from what it does: with other settings another job runs, and with
the same ones none.
*/}}
{{- define "create-name" -}}
{{- $what := print (include "create-pod" .) (include "settings-json" .) }}
{{- printf "%s-create-%s" .Values.name ($what | sha256sum | trunc 8) }}
{{- end }}
