{{- /* Made by `make schema` from infra/values/clients.tpl, the same in each chart that has pods which use servers. */}}

{{- define "secret-variable" -}}
- name: {{ .name | default .key }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: {{ .key | quote }}
{{- end }}

{{- /* Who the object store is told we are, and what it is believed by. */}}
{{- define "s3-env" -}}
{{- with .Values.s3.webIdentity }}
- name: AWS_ROLE_ARN
  value: {{ .role | quote }}
- name: AWS_WEB_IDENTITY_TOKEN_FILE
  value: /var/run/effectively-once/identity/token
{{- with .issuer }}
- name: AWS_ENDPOINT_URL_STS
  value: {{ . | quote }}
{{- end }}
{{- else }}
{{ include "secret-variable" (dict "key" "AWS_ACCESS_KEY_ID" "secret" .Values.credentialsSecret) }}
{{ include "secret-variable" (dict "key" "AWS_SECRET_ACCESS_KEY" "secret" .Values.credentialsSecret) }}
{{- if .Values.s3.sessionToken }}
{{ include "secret-variable" (dict "key" "AWS_SESSION_TOKEN" "secret" .Values.credentialsSecret) }}
{{- end }}
{{- end }}
{{- /* The JVM asks the issuer where it knows a region, and AWS itself where it knows none. */}}
{{- if or .Values.s3.webIdentity (ne .Values.s3.region "us-east-1") }}
- name: AWS_REGION
  value: {{ .Values.s3.region | quote }}
{{- end }}
{{- if .Values.s3.certificates }}
- name: AWS_CA_BUNDLE
  value: /var/run/effectively-once/s3/ca.crt
{{- end }}
{{- end }}

{{- define "s3-mounts" -}}
{{- if .Values.s3.webIdentity }}
- name: identity
  mountPath: /var/run/effectively-once/identity
  readOnly: true
{{- end }}
{{- if .Values.s3.certificates }}
- name: s3-certificates
  mountPath: /var/run/effectively-once/s3
  readOnly: true
{{- end }}
{{- end }}

{{- define "s3-volumes" -}}
{{- with .Values.s3.webIdentity }}
- name: identity
  projected:
    sources:
      - serviceAccountToken:
          audience: {{ .audience | quote }}
          expirationSeconds: 3600
          path: token
{{- end }}
{{- with .Values.s3.certificates }}
- name: s3-certificates
  secret:
    secretName: {{ . }}
    items:
      - key: ca.crt
        path: ca.crt
{{- end }}
{{- end }}

{{- /* Spark's own client of the object store, for event logs. */}}
{{- define "s3a-credentials" -}}
{{- $provider := ternary "WebIdentityTokenFileCredentialsProvider" "EnvironmentVariableCredentialsProvider" (not (empty .Values.s3.webIdentity)) -}}
software.amazon.awssdk.auth.credentials.{{ $provider }}
{{- end }}
