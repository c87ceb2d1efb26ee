{{- define "selector" -}}
app.kubernetes.io/name: monitoring
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/part-of: effectively-once
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "prometheus" -}}
{{ include "selector" . }}
app.kubernetes.io/component: prometheus
{{- end }}

{{- define "alertmanager" -}}
{{ include "selector" . }}
app.kubernetes.io/component: alertmanager
{{- end }}

{{- /* Where pods may run, whom they make room for, and with which credentials their images are pulled. */}}
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
{{- with .Values.priorityClass }}
priorityClassName: {{ . | quote }}
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
runAsUser: 1001
runAsGroup: 1001
fsGroup: 1001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Rules of the jobs that are scraped, by file. Whoever has no such job would be told for ever that it is away. */}}
{{- define "rule-files" -}}
{{- $files := list "pipelines" }}
{{- if .Values.kafka }}{{ $files = append $files "kafka" }}{{ end }}
{{- if .Values.objectStore }}{{ $files = append $files "object-store" }}{{ end }}
{{- if .Values.operator }}{{ $files = append $files "spark-operator" }}{{ end }}
{{- $files | toJson }}
{{- end }}

{{- /* One file of rules: (dict "root" $ "file" "pipelines"). Links to what to do begin where the documentation is. */}}
{{- define "rules" -}}
{{- $text := .root.Files.Get (printf "files/rules/%s.yaml" .file) }}
{{- $text | replace "runbook_url: docs/" (printf "runbook_url: %sdocs/" .root.Values.runbooks) }}
{{- end }}

{{- /* The driver's own labels name the pipeline; this is the SparkApplication, by which the operator counts. */}}
{{- define "prometheus-config" -}}
global:
  scrape_interval: 15s
  evaluation_interval: 15s
rule_files: [/etc/prometheus/rules-*.yaml]
alerting:
  alertmanagers:
    - static_configs:
        - targets: [alertmanager:9093]
scrape_configs:
  - job_name: drivers
    kubernetes_sd_configs:
      - role: pod
        namespaces:
          names: [{{ .Values.pipelines }}]
        selectors:
          - role: pod
            label: app.kubernetes.io/name=streaming-pipeline,spark-role=driver
    relabel_configs:
      - source_labels: [__meta_kubernetes_pod_phase]
        regex: Running
        action: keep
      # A pod is as many targets as its containers name ports, none of which is this one; of one address they are one.
      - source_labels: [__meta_kubernetes_pod_ip]
        regex: ([^:]+)
        replacement: ${1}:9404
        target_label: __address__
      - source_labels: [__meta_kubernetes_pod_ip]
        regex: (.*:.*)
        replacement: "[${1}]:9404"
        target_label: __address__
      - source_labels: [__meta_kubernetes_pod_label_effectively_once_pipeline]
        target_label: application
      - source_labels: [__meta_kubernetes_pod_name]
        target_label: pod
  {{- with .Values.operator }}
  - job_name: spark-operator
    kubernetes_sd_configs:
      - role: pod
        namespaces:
          names: [{{ . }}]
        selectors:
          - role: pod
            label: app.kubernetes.io/name=spark-operator
    relabel_configs:
      - source_labels: [__meta_kubernetes_pod_container_port_name]
        regex: metrics
        action: keep
      - source_labels: [__meta_kubernetes_pod_name]
        target_label: pod
    metric_relabel_configs:
      # The operator's label keeps its slash for a Prometheus that takes any name, as ours does.
      - regex: effectively_once[_/]pipeline
        replacement: application
        action: labelmap
      - regex: effectively_once[_/]pipeline
        action: labeldrop
  {{- end }}
  {{- with .Values.kafka }}
  # By their names, as there is one for each node whether it lives or not.
  - job_name: kafka
    static_configs:
      - targets: {{ . | toJson }}
  {{- end }}
  {{- with .Values.objectStore }}
  - job_name: minio
    metrics_path: /minio/v2/metrics/cluster
    {{- if $.Values.objectStoreCertificates }}
    scheme: https
    tls_config:
      ca_file: /etc/object-store/ca.crt
    {{- end }}
    static_configs:
      - targets: [{{ . | quote }}]
  {{- end }}
{{- end }}

{{- define "prometheus-files" -}}
prometheus.yaml: |
  {{- include "prometheus-config" . | nindent 2 }}
{{- range include "rule-files" . | fromJsonArray }}
rules-{{ . }}.yaml: |
  {{- include "rules" (dict "root" $ "file" .) | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Without a configuration of the user's it shows alerts and sends none. */}}
{{- define "alertmanager-config" -}}
route:
  receiver: nobody
  group_by: [alertname, pipeline]
receivers:
  - name: nobody
# What a pipeline that stands still says, too.
inhibit_rules:
  - source_matchers: ['alertname=~"PipelineStalled|DriverAway|DriverCrashLooping|BrokerSilent"']
    target_matchers: ['alertname="LagGrowing"']
    equal: [pipeline]
{{- end }}
