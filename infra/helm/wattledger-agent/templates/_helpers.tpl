{{- define "wattledger-agent.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "wattledger-agent.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "wattledger-agent.name" . -}}
{{- (contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name)) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "wattledger-agent.selector" -}}
app.kubernetes.io/name: {{ include "wattledger-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "wattledger-agent.labels" -}}
{{ include "wattledger-agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "wattledger-agent.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "wattledger-agent.fullname" .) "default") -}}
{{- end -}}

{{- define "wattledger-agent.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{- .Values.image.repository -}}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- define "wattledger-agent.pullSecrets" -}}
{{- with concat .Values.global.imagePullSecrets .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* "yes" when something that is switched on is root's alone. */}}
{{- define "wattledger-agent.root" -}}
{{- if or (and .Values.podResources.enabled (kindIs "invalid" .Values.podResources.group)) .Values.rapl.enabled .Values.processes.readEnvironment }}yes{{ end -}}
{{- end -}}

{{/* What no container of this chart goes without. */}}
{{- define "wattledger-agent.confined" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
{{- end -}}

{{/* Settings that agents and ticker share, as YAML; the ConfigMap makes TOML of them. */}}
{{- define "wattledger-agent.sharedConfig" -}}
{{- $sasl := hasPrefix "sasl" .Values.kafka.security -}}
{{- if and $sasl (not .Values.kafka.username) -}}
{{- fail (printf "kafka.security is %s, and kafka.username is empty: name the SASL user" .Values.kafka.security) -}}
{{- end -}}
{{- if and .Values.kafka.username (not $sasl) -}}
{{- fail (printf "kafka.username is set, and kafka.security is %s, which shows no user: use sasl_ssl" .Values.kafka.security) -}}
{{- end -}}
http_host: 0.0.0.0
http_port: {{ int64 .Values.port }}
{{- with .Values.cluster }}
cluster: {{ . | quote }}
{{- end }}
{{- with .Values.site }}
site: {{ . | quote }}
{{- end }}
wal:
  path: /var/lib/wattledger-agent/agent.wal
kafka:
  bootstrap: {{ required "kafka.bootstrap is empty: give the brokers as host:port, comma-separated" .Values.kafka.bootstrap | quote }}
  security: {{ .Values.kafka.security }}
  {{- if $sasl }}
  sasl_mechanism: {{ .Values.kafka.saslMechanism }}
  username: {{ .Values.kafka.username | quote }}
  password_file: /etc/wattledger/kafka/password
  {{- end }}
  {{- if .Values.kafka.caSecret.name }}
  ca_file: /etc/wattledger/kafka-ca/ca.crt
  {{- end }}
{{- end -}}

{{/* What the agents alone have: which probes and watchers run follows from what the pod is given. */}}
{{- define "wattledger-agent.agentConfig" -}}
sampling:
  probes:
    {{- if .Values.nvidia.enabled }}
    - nvml
    {{- end }}
    {{- if .Values.amd.enabled }}
    - amdsmi
    {{- end }}
    {{- if .Values.rapl.enabled }}
    - rapl
    {{- end }}
    {{- if not (or .Values.nvidia.enabled .Values.amd.enabled .Values.rapl.enabled) }}
    []
    {{- end }}
watchers:
  {{- if .Values.podResources.enabled }}
  - kubernetes
  {{- end }}
  {{- if .Values.processes.enabled }}
  - containers
  - processes
  {{- end }}
  {{- if not (or .Values.podResources.enabled .Values.processes.enabled) }}
  []
  {{- end }}
kubernetes:
  api: {{ .Values.apiJoin.enabled }}
  dra: {{ .Values.apiJoin.resourceClaims }}
{{- end -}}

{{- define "wattledger-agent.kafkaMounts" -}}
{{- if .Values.kafka.username }}
- {name: kafka-password, mountPath: /etc/wattledger/kafka, readOnly: true}
{{- end }}
{{- if .Values.kafka.caSecret.name }}
- {name: kafka-ca, mountPath: /etc/wattledger/kafka-ca, readOnly: true}
{{- end }}
{{- end -}}

{{- define "wattledger-agent.kafkaVolumes" -}}
{{- if .Values.kafka.username }}
- name: kafka-password
  secret:
    secretName: {{ required "kafka.username is set, and kafka.passwordSecret.name is empty: name the Secret that holds the password" .Values.kafka.passwordSecret.name }}
    defaultMode: 0440
    items: [{key: {{ .Values.kafka.passwordSecret.key }}, path: password}]
{{- end }}
{{- if .Values.kafka.caSecret.name }}
- name: kafka-ca
  secret:
    secretName: {{ .Values.kafka.caSecret.name }}
    defaultMode: 0444
    items: [{key: {{ .Values.kafka.caSecret.key }}, path: ca.crt}]
{{- end }}
{{- end -}}
