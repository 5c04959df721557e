{{/* Parts that every pod shares. */}}

{{- define "tenuto.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "tenuto.labels" -}}
app.kubernetes.io/name: tenuto
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "tenuto.rights" -}}
automountServiceAccountToken: false
# Otherwise Kubernetes adds variables such as TENUTO_API_PORT, which are no settings.
enableServiceLinks: false
serviceAccountName: tenuto
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "tenuto.containerRights" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* A list: the chart, and the key of the database's Secret. */}}
{{- define "tenuto.variables" -}}
{{- $chart := index . 0 -}}
env:
  - {name: TENUTO_CONFIG, value: /etc/tenuto/tenuto.toml}
  # It may contain the password, because it is a Secret.
  - name: TENUTO_DATABASE
    valueFrom: {secretKeyRef: {name: {{ $chart.Values.database.secret }}, key: {{ index . 1 }}}}
  - name: AWS_ACCESS_KEY_ID
    valueFrom: {secretKeyRef: {name: {{ $chart.Values.store.secret }}, key: access-key-id}}
  - name: AWS_SECRET_ACCESS_KEY
    valueFrom: {secretKeyRef: {name: {{ $chart.Values.store.secret }}, key: secret-access-key}}
{{- end }}

{{- define "tenuto.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "tenuto.labels" . | nindent 8 }}
{{- end }}

{{/* Changed settings restart every process, one after the other. */}}
{{- define "tenuto.settingsDigest" -}}
tenuto/settings: {{ include "tenuto.settings" . | sha256sum }}
{{- end }}
