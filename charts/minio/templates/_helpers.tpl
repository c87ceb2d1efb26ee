{{- define "selector" -}}
app.kubernetes.io/name: minio
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/part-of: effectively-once
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Of who gives rights: another name, since the Service sends requests to every pod of the store's. */}}
{{- define "grant-selector" -}}
app.kubernetes.io/name: minio-grant
{{- end }}

{{- define "grant-labels" -}}
{{ include "grant-selector" . }}
app.kubernetes.io/part-of: effectively-once
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "scheme" -}}
{{ ternary "https" "http" (not (empty .Values.security)) }}
{{- end }}

{{- /* One drive, or one of each node: objects are then kept in parts, some of which may be away. */}}
{{- define "drives" -}}
{{- if gt (int .Values.nodes) 1 -}}
{{ include "scheme" . }}://minio-{0...{{ sub (int .Values.nodes) 1 }}}.minio-nodes.{{ .Release.Namespace }}.svc:9000/data
{{- else -}}
/data
{{- end -}}
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

{{- /*
A way in for one port, but by node port: (dict "root" $ "name" "x-external" "service" "x" "port" "ui" "way" ...).
*/}}
{{- define "exposed" -}}
{{- $balanced := eq .way.by "LoadBalancer" }}
apiVersion: {{ ternary "v1" "networking.k8s.io/v1" $balanced }}
kind: {{ ternary "Service" "Ingress" $balanced }}
metadata:
  name: {{ .name }}
  labels: {{- include "labels" .root | nindent 4 }}
  {{- with .way.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if $balanced }}
  type: LoadBalancer
  selector: {{- include "selector" .root | nindent 4 }}
  ports:
    - name: {{ .port }}
      port: {{ .way.port }}
      targetPort: {{ .port }}
  {{- else }}
  {{- with .way.ingressClass }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .way.tlsSecret }}
  tls:
    - hosts: [{{ $.way.host | quote }}]
      secretName: {{ . }}
  {{- end }}
  rules:
    - host: {{ .way.host | quote }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ .service }}
                port:
                  name: {{ .port }}
  {{- end }}
{{- end }}
