{{/* Name of all objects: the release's name with the suffix -operator. */}}
{{- define "tftraining.fullname" -}}
{{- $suffix := "-operator" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- printf "%s%s" (.Release.Name | trimSuffix $suffix | trunc 54 | trimSuffix "-") $suffix -}}
{{- end -}}
{{- end -}}

{{- define "tftraining.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tftraining.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Selector of the operator's pods; immutable. */}}
{{- define "tftraining.selectorLabels" -}}
app.kubernetes.io/name: tftraining-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tftraining.labels" -}}
{{ include "tftraining.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "tftraining.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Permissions of the operator, in the cluster or in each watched namespace. */}}
{{- define "tftraining.rules" -}}
- apiGroups: [tftraining.dev]
  resources: [tftrainingjobs]
  verbs: [get, list, watch, delete] # delete: ttlSecondsAfterFinished
- apiGroups: [tftraining.dev]
  resources: [tftrainingjobs/status]
  verbs: [patch]
- apiGroups: [tftraining.dev]
  resources: [tftrainingjobs/finalizers]
  verbs: [update] # required by OwnerReferencesPermissionEnforcement
- apiGroups: [""]
  resources: [pods, services]
  verbs: [get, list, watch, create, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, update, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- $groups := dict "inTree" "scheduling.k8s.io" "podGroup" "scheduling.x-k8s.io" "volcano" "scheduling.volcano.sh" }}
{{- range $scheduler, $group := $groups }}
{{- if index $.Values.scheduling $scheduler }}
- apiGroups: [{{ $group }}]
  resources: [podgroups]
  verbs: [get, list, create, delete]
{{- end }}
{{- end }}
{{- end -}}
