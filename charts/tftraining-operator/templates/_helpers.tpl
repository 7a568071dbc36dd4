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
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "tftraining.labels" -}}
{{ include "tftraining.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/* Selector of the web page's pods; they are not the operator. */}}
{{- define "tftraining.webSelectorLabels" -}}
app.kubernetes.io/name: tftraining-web
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "tftraining.webLabels" -}}
{{ include "tftraining.webSelectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/* Permissions of the web page, in the cluster or in each watched namespace: it only reads. */}}
{{- define "tftraining.webRules" -}}
- apiGroups: [tftraining.dev]
  resources: [tftrainingjobs]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods, events]
  verbs: [list]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get] # says why a pod waits for its volume
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
  verbs: [list, watch, delete] # delete: ttlSecondsAfterFinished
- apiGroups: [tftraining.dev]
  resources: [tftrainingjobs/status]
  verbs: [patch]
- apiGroups: [tftraining.dev]
  resources: [tftrainingjobs/finalizers]
  verbs: [update] # required by OwnerReferencesPermissionEnforcement
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, deletecollection]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, update, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, update, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
# Which of several releases works on the jobs of a namespace. Permission to create cannot be limited
# to a name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [tftrainingjobs.tftraining.dev]
  verbs: [get, update]
{{- $groups := dict "inTree" "scheduling.k8s.io" "podGroup" "scheduling.x-k8s.io" "volcano" "scheduling.volcano.sh" }}
{{- range $scheduler, $group := $groups }}
{{- if index $.Values.scheduling $scheduler }}
- apiGroups: [{{ $group }}]
  resources: [podgroups]
  verbs: [get, list, create, delete]
{{- end }}
{{- end }}
{{- if .Values.scheduling.kueue }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [patch]
{{- end }}
{{- end -}}

{{- define "tftraining.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "tftraining.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The job of `helm test`: a chief, a worker and a ps that train for some seconds. */}}
{{- define "tftraining.testJob" -}}
apiVersion: tftraining.dev/v1alpha1
kind: TFTrainingJob
metadata:
  name: {{ .name }}
  namespace: {{ .namespace | quote }}
spec:
  template:
    spec:
      containers:
        - name: tensorflow
          args: [--task=tftrainer.examples.mnist, --epochs=1]
          resources:
            requests: {cpu: 100m, memory: 400Mi}
            limits: {memory: 1536Mi}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  worker: {replicas: 1}
  ps: {replicas: 1}
  runPolicy:
    backoffLimit: 0
    startupDeadlineSeconds: {{ .root.Values.test.timeoutSeconds }}
    activeDeadlineSeconds: {{ .root.Values.test.timeoutSeconds }}
    # Also where the test's pod was killed before it could delete the job.
    ttlSecondsAfterFinished: 300
{{- end -}}
