{{/* The labels by which a Service, a budget or a policy finds the pods of one component. */}}
{{- define "laneway.selector" -}}
app.kubernetes.io/name: laneway
app.kubernetes.io/instance: {{ .context.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The labels of every object. */}}
{{- define "laneway.labels" -}}
{{ include "laneway.selector" . }}
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: laneway
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The one image of all components. A digest says all that a tag does. */}}
{{- define "laneway.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end -}}
{{- end }}

{{- define "laneway.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where the pods of a component may run, and how important they are. */}}
{{- define "laneway.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Replicas stand on different nodes, and in different zones, where there are several. */}}
{{- define "laneway.apart" -}}
affinity:
  {{- if .values.affinity }}
  {{- toYaml .values.affinity | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "laneway.selector" . | nindent 14 }}
  {{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "laneway.selector" . | nindent 8 }}
{{- end }}

{{/* What every pod but the agent's runs as: nobody, with nothing. */}}
{{- define "laneway.nobody" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "laneway.nothing" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* A process is alive while it answers, and ready once it knows what it must. */}}
{{- define "laneway.probes" -}}
startupProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/*
Whether the cluster has ValidatingAdmissionPolicies: what it says itself when it is asked, as when
installing; else what its version has, as when rendering without a cluster.
*/}}
{{- define "laneway.hasPolicies" -}}
{{- if .Capabilities.APIVersions.Has "v1/Pod" }}
{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" }}yes{{ end }}
{{- else if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}yes{{ end }}
{{- end }}

{{/* The definitions of Laneway's kinds. */}}
{{- define "laneway.definitions" -}}
- hostpolicies.devices.harvesterhci.io
- hostpreparations.devices.harvesterhci.io
- migconfigurations.devices.harvesterhci.io
- nodes.devices.harvesterhci.io
- pcideviceclaims.devices.harvesterhci.io
- pcidevices.devices.harvesterhci.io
- sriovgpudevices.devices.harvesterhci.io
- sriovnetworkdevices.devices.harvesterhci.io
- usbdeviceclaims.devices.harvesterhci.io
- usbdevices.devices.harvesterhci.io
- vcenters.devices.harvesterhci.io
- vgpudevices.devices.harvesterhci.io
- vgpulayouts.devices.harvesterhci.io
- vspherehosts.devices.harvesterhci.io
- vspherereservations.devices.harvesterhci.io
{{- end }}
