{{- define "opencgpu.image" -}}
{{- $image := .image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "opencgpu.labels" -}}
app.kubernetes.io/name: opencgpu
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "opencgpu.metadata" -}}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}
