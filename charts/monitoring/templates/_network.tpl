{{- /* Made by `python -m infra.values` from infra/values/network.tpl: parts of NetworkPolicies. */}}

{{- /* One policy for some pods, which are closed but for its rules: nothing is open for a moment between two objects. */}}
{{- define "network-policy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  labels: {{- include "labels" .root | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- .pods | trim | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- range $way := list "ingress" "egress" }}
  {{- with index $ $way | default "" | trim }}
  {{ $way }}: {{- . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end }}

{{- /* Pods of this release's namespace, by labels that are text. */}}
{{- define "these-pods" -}}
- podSelector:
    matchLabels: {{- . | trim | nindent 6 }}
{{- end }}

{{- /* Pods: (dict "namespace" "x" "labels" (dict ...)), both optional. */}}
{{- define "pods-of" -}}
- namespaceSelector:
    {{- if .namespace }}
    matchLabels:
      kubernetes.io/metadata.name: {{ .namespace }}
    {{- else }} {}
    {{- end }}
  {{- with .labels }}
  podSelector:
    matchLabels: {{- toYaml . | nindent 6 }}
  {{- end }}
{{- end }}

{{- define "address-block" -}}
- ipBlock:
    cidr: {{ .cidr | quote }}
    {{- with .excluded }}
    except: {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}

{{- define "tcp-ports" -}}
{{- range . }}
- protocol: TCP
  port: {{ . }}
{{- end }}
{{- end }}

{{- /* A rule for connections that come in: (dict "from" "peers as text" "ports" (list 1)); without peers from anywhere. */}}
{{- define "from" -}}
- ports: {{- include "tcp-ports" .ports | nindent 4 }}
  {{- with .from | default "" | trim }}
  from: {{- . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* Clients of a server. */}}
{{- define "clients" -}}
{{- range .Values.networkPolicies.clients }}
{{ include "pods-of" . }}
{{- end }}
{{- end }}

{{- /* A rule for who asks for metrics: (dict "root" $ "port" 8080); none where none are served, or nobody asks. */}}
{{- define "from-watchers" -}}
{{- $watchers := .root.Values.networkPolicies.watchers }}
{{- if and .port $watchers }}
{{- $from := "" }}
{{- range $watchers }}
{{- $from = print $from "\n" (include "pods-of" .) }}
{{- end }}
{{ include "from" (dict "ports" (list .port) "from" $from) }}
{{- end }}
{{- end }}

{{- /* A rule for connections that go out: ports of pods, of addresses, or of both. */}}
{{- define "to" -}}
- ports: {{- include "tcp-ports" .ports | nindent 4 }}
  to:
    {{- with .pods }}
    {{- include "pods-of" . | nindent 4 }}
    {{- end }}
    {{- range .addresses }}
    {{- include "address-block" . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "to-these-pods" -}}
- ports: {{- include "tcp-ports" .ports | nindent 4 }}
  to: {{- .to | trim | nindent 4 }}
{{- end }}

{{- /* Names are answered by pods of these labels on nearly every cluster. */}}
{{- define "to-dns" -}}
- ports:
    - protocol: UDP
      port: 53
    - protocol: TCP
      port: 53
  to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: kube-system
      podSelector:
        matchLabels:
          k8s-app: kube-dns
    {{- range .Values.networkPolicies.dns }}
    - ipBlock:
        cidr: {{ . | quote }}
    {{- end }}
{{- end }}
