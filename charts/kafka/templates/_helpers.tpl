{{- define "selector" -}}
app.kubernetes.io/name: kafka
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
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

{{- /* The DNS name of a pod behind a headless Service: (dict "root" $ "set" "kafka" "pod" "kafka-0"). */}}
{{- define "node-host" -}}
{{ .pod }}.{{ .set }}-nodes.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}
{{- end }}

{{- /* Name, number and first node id of the StatefulSet whose nodes are controllers. */}}
{{- define "controllers" -}}
{{- if .Values.controllers -}}
{{ dict "set" "kafka-controller" "count" .Values.controllers "offset" 100 | toJson }}
{{- else -}}
{{ dict "set" "kafka" "count" .Values.nodes "offset" 0 | toJson }}
{{- end }}
{{- end }}

{{- define "controller-quorum" -}}
{{- $controllers := include "controllers" . | fromJson }}
{{- $hosts := list }}
{{- range $ordinal := until (int $controllers.count) }}
{{- $pod := printf "%s-%d" $controllers.set $ordinal }}
{{- $hosts = append $hosts (printf "%s:9093" (include "node-host" (dict "root" $ "set" $controllers.set "pod" $pod))) }}
{{- end }}
{{- join "," $hosts }}
{{- end }}

{{- /*
The quorum that several controllers are formatted with: id@host:port:directory,... A directory's id is 16 bytes in
base64. Every node must know those of all: so they follow from the cluster's id.
*/}}
{{- define "initial-controllers" -}}
{{- $controllers := include "controllers" . | fromJson }}
{{- $members := list }}
{{- range $ordinal := until (int $controllers.count) }}
{{- $id := add $ordinal (int $controllers.offset) }}
{{- $host := include "node-host" (dict "root" $ "set" $controllers.set "pod" (printf "%s-%d" $controllers.set $ordinal)) }}
{{- $directory := printf "%s/%d" $.Values.clusterId $id | sha256sum | trunc 16 | b64enc | trimSuffix "==" }}
{{- $members = append $members (printf "%d@%s:9093:%s" $id $host $directory) }}
{{- end }}
{{- join "," $members }}
{{- end }}

{{- /* Said on what takes plain connections, since a policy of the cluster refuses it otherwise (infra/policy/rules.py). */}}
{{- define "plain-listeners" -}}
{{- if not .Values.security -}}
annotations:
  effectively-once/plain-listeners: "true"
{{- end }}
{{- end }}

{{- /* What brokers and controllers have in common. */}}
{{- define "common-properties" -}}
node.id=${NODE_ID}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={{ include "controller-quorum" . }}
{{- if .Values.security }}
listener.security.protocol.map=CONTROLLER:SSL,NODES:SSL,INTERNAL:SASL_SSL,EXTERNAL:SASL_SSL
{{- else }}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT
{{- end }}
log.dirs=/var/lib/kafka/data
{{- if .Values.security }}
{{ include "security-properties" . }}
{{- end }}
{{- end }}

{{- /*
Nodes, and who gives rights, show certificates of our authority, and are known by their names. SCRAM cannot do that:
its users are in the log that nodes have to read first. Clients show none, and log in.
*/}}
{{- define "security-properties" -}}
ssl.keystore.type=PEM
ssl.keystore.location=/etc/kafka-tls/keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location=/etc/kafka-tls/ca.crt
ssl.enabled.protocols=TLSv1.3,TLSv1.2
listener.name.controller.ssl.client.auth=required
listener.name.nodes.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([a-z-]+)$/$1/,DEFAULT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:platform-nodes;User:platform-admin
sasl.enabled.mechanisms=SCRAM-SHA-512
{{- range tuple "internal" "external" }}
listener.name.{{ . }}.ssl.client.auth=none
listener.name.{{ . }}.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
{{- end }}
{{- end }}

{{- /* What of the beans is a metric. */}}
{{- define "metrics" -}}
{{- if .Values.metricsPort }}
metrics.yaml: {{ .Files.Get "files/metrics.yaml" | toJson }}
{{- end }}
{{- end }}

{{- /* The pod of a node: (dict "root" $ "set" "kafka" "offset" 0 "resources" ... "heapMib" ...). */}}
{{- define "node-pod" -}}
{{- $root := .root -}}
serviceAccountName: kafka
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $root.Values.terminationGraceS }}
securityContext: {{- include "pod-security" $root | nindent 2 }}
{{- with include "scheduling" $root }}
{{ . }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    {{- if eq $root.Values.spread "hard" }}
    whenUnsatisfiable: DoNotSchedule
    # Without it two copies would share a node of a cluster that has fewer nodes than copies.
    minDomains: {{ .replicas }}
    {{- else }}
    whenUnsatisfiable: ScheduleAnyway
    {{- end }}
    labelSelector:
      matchLabels: {{- include "selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
containers:
  - name: kafka
    image: {{ $root.Values.image }}
    imagePullPolicy: {{ $root.Values.imagePullPolicy }}
    command: [/usr/bin/tini, --, /opt/kafka/start]
    env:
      - name: KAFKA_CLUSTER_ID
        value: {{ $root.Values.clusterId }}
      - name: KAFKA_NODE_ID_OFFSET
        value: {{ .offset | quote }}
      - name: KAFKA_JVM_OPTIONS
        value: -Xms{{ .heapMib }}m -Xmx{{ .heapMib }}m {{ $root.Values.jvmOptions }}
      {{- with $root.Values.metricsPort }}
      - name: KAFKA_METRICS_PORT
        value: {{ . | quote }}
      {{- end }}
      {{- if and .quorum (gt (int (include "controllers" $root | fromJson).count) 1) }}
      - name: KAFKA_INITIAL_CONTROLLERS
        value: {{ include "initial-controllers" $root }}
      {{- end }}
      {{- if and (eq .component "broker") (ne $root.Values.external.by "none") }}
      - name: KAFKA_EXTERNAL_PORT_BASE
        value: {{ $root.Values.external.port | quote }}
      {{- end }}
    ports: {{- toYaml .ports | nindent 6 }}
    # Both listeners open only when the node has joined its quorum and caught up with its metadata: that is readiness.
    # There is no liveness probe: a slow recovery of logs must not be answered with another kill.
    readinessProbe:
      tcpSocket:
        port: {{ (first .ports).name }}
      periodSeconds: 3
    resources: {{- include "resources" .resources | nindent 6 }}
    securityContext: {{- include "container-security" $root | nindent 6 }}
    volumeMounts:
      - name: data
        mountPath: /var/lib/kafka
      - name: properties
        mountPath: /etc/kafka
        readOnly: true
      {{- if .quorum }}
      - name: quorum
        mountPath: /etc/kafka-quorum
        readOnly: true
      {{- end }}
      {{- if $root.Values.security }}
      - name: tls
        mountPath: /etc/kafka-tls
        readOnly: true
      {{- end }}
      - name: tmp
        mountPath: /tmp
volumes:
  - name: properties
    configMap:
      name: {{ .set }}
  {{- if .quorum }}
  # Whether the quorum has been formed, and who may rejoin it with an empty disk: neither is the chart's.
  - name: quorum
    projected:
      sources:
        {{- range tuple "kafka-formed" "kafka-rejoin" }}
        - configMap:
            name: {{ . }}
            optional: true
        {{- end }}
  {{- end }}
  {{- with $root.Values.security }}
  - name: tls
    secret:
      secretName: {{ .tlsSecret }}
      # Its group is the pod's: nobody else in it reads the key.
      defaultMode: 0440
  {{- end }}
  - name: tmp
    emptyDir: {}
{{- end }}

{{- /* Its volume. */}}
{{- define "node-volume" -}}
- metadata:
    name: data
    labels: {{- include "selector" . | nindent 6 }}
      app.kubernetes.io/part-of: effectively-once
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .Values.storage.storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ .Values.storage.size }}
{{- end }}
