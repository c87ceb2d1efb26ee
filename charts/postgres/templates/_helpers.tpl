{{- define "selector" -}}
app.kubernetes.io/name: postgres
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/part-of: effectively-once
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Of who gives rights: another name, since the Service sends requests to every pod of the server's. */}}
{{- define "grant-selector" -}}
app.kubernetes.io/name: postgres-grant
{{- end }}

{{- define "grant-labels" -}}
{{ include "grant-selector" . }}
app.kubernetes.io/part-of: effectively-once
app.kubernetes.io/managed-by: {{ .Release.Service }}
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
runAsUser: 999
runAsGroup: 999
fsGroup: 999
# The first mount alone: a database refuses a folder whose mode was changed, and large volumes take long.
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
