{{- /*
What all pods of the chart have in common. A release and a namespace may be called 123, which YAML reads as a number: names
are quoted here. A helper takes a dict: root, the chart's $; part, the key of the values that the
pod belongs to; component, where a part has several pods; selector, annotations and resources, which the values cannot take away.
*/ -}}

{{- define "opencgpu.component" -}}
{{ .component | default .part }}
{{- end -}}

{{- define "opencgpu.prefix" -}}
{{ .root.Values.fullnameOverride | default .root.Values.nameOverride | default "cgpu" }}
{{- end -}}

{{- define "opencgpu.fullname" -}}
{{ include "opencgpu.prefix" . }}-{{ include "opencgpu.component" . }}
{{- end -}}

{{- define "opencgpu.account" -}}
{{ dig "serviceAccount" "name" "" (index .root.Values .part) | default (printf "%s-%s" (include "opencgpu.prefix" .) .part) }}
{{- end -}}

{{- define "opencgpu.image" -}}
{{- $image := (index .root.Values .part).image | default .root.Values.image -}}
{{- with $image.registry | default .root.Values.registry }}{{ . }}/{{ end -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "opencgpu.selector" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default .root.Chart.Name | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ include "opencgpu.component" . }}
{{- end -}}

{{- define "opencgpu.labels" -}}
{{ include "opencgpu.selector" . }}
app.kubernetes.io/part-of: opencgpu
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "opencgpu.clusterMetadata" -}}
name: {{ include "opencgpu.fullname" . }}
labels:
  {{- include "opencgpu.labels" . | nindent 2 }}
{{- end -}}

{{- define "opencgpu.namespace" -}}
namespace: {{ .root.Release.Namespace | quote }}
{{- end -}}

{{- define "opencgpu.metadata" -}}
{{ include "opencgpu.namespace" . }}
{{ include "opencgpu.clusterMetadata" . }}
{{- end -}}

{{- define "opencgpu.serviceAccount" -}}
{{- $own := index .root.Values .part -}}
{{- if dig "serviceAccount" "create" true $own -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "opencgpu.account" . | quote }}
  {{ include "opencgpu.namespace" . }}
  labels:
    {{- include "opencgpu.labels" . | nindent 4 }}
  {{- with dig "serviceAccount" "annotations" dict $own }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
---
{{ end -}}
{{- end -}}

{{- /* The part's account has the ClusterRole of the part. */ -}}
{{- define "opencgpu.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "opencgpu.clusterMetadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "opencgpu.fullname" . }}
subjects:
  - {{ include "opencgpu.subject" . }}
{{- end -}}

{{- define "opencgpu.subject" -}}
{kind: ServiceAccount, name: {{ include "opencgpu.account" . | quote }}, {{ include "opencgpu.namespace" . }}}
{{- end -}}

{{- define "opencgpu.podMetadata" -}}
{{- $all := .root.Values }}{{ $own := merge (dict) (index $all .part) (dict "podLabels" dict "podAnnotations" dict "nodeSelector" dict "tolerations" list) -}}
labels:
  {{- toYaml (merge (include "opencgpu.selector" . | fromYaml) (dict "app.kubernetes.io/part-of" "opencgpu") $own.podLabels $all.podLabels) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) $own.podAnnotations $all.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* A pod comes to machines alone that its image is for. */ -}}
{{- define "opencgpu.podSpec" -}}
{{- $all := .root.Values }}{{ $own := merge (dict) (index $all .part) (dict "podLabels" dict "podAnnotations" dict "nodeSelector" dict "tolerations" list) -}}
{{- $nodes := dict "kubernetes.io/os" "linux" -}}
{{- with ($own.image | default $all.image).arch }}{{ $_ := set $nodes "kubernetes.io/arch" . }}{{ end -}}
serviceAccountName: {{ include "opencgpu.account" . | quote }}
{{- with $all.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.priorityClassName | default $all.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
nodeSelector:
  {{- toYaml (merge (dict) (.selector | default dict) $own.nodeSelector $all.nodeSelector $nodes) | nindent 2 }}
{{- with concat $own.tolerations $all.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "opencgpu.affinity" (dict "given" ($own.affinity | default $all.affinity) "nodes" .nodes) | fromYaml }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* given: an affinity. nodes: an expression that nodes must match beside it, in each of its terms, one of which is enough. */ -}}
{{- define "opencgpu.affinity" -}}
{{- $affinity := deepCopy .given -}}
{{- with .nodes -}}
{{- $given := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" (list dict) $affinity -}}
{{- $terms := list -}}
{{- range $term := $given -}}
{{- $terms = append $terms (set $term "matchExpressions" (append ($term.matchExpressions | default list) $.nodes)) -}}
{{- end -}}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" (merge $required ($affinity.nodeAffinity | default dict)) -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{- define "opencgpu.container" -}}
{{- $own := index .root.Values .part -}}
name: {{ include "opencgpu.component" . }}
image: {{ include "opencgpu.image" . | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
  {{- toYaml (mustMergeOverwrite (dict) (deepCopy $own.resources) (.resources | default dict)) | nindent 2 }}
securityContext:
  {{- toYaml $own.securityContext | nindent 2 }}
{{- end -}}
