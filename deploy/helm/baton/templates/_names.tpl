{{/* Names and labels. Those that take a role get (dict "root" $ "role" NAME). */}}

{{/* What objects are called. Services are among them, whose names have no dots. */}}
{{- define "baton.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- $both | replace "." "-" -}}
{{- end -}}
{{- end -}}

{{- define "baton.rolename" -}}
{{- printf "%s-%s" (include "baton.fullname" .root) .role -}}
{{- end -}}

{{- define "baton.serviceaccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "baton.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What chooses the pods of a release; with a role, of that role. */}}
{{- define "baton.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- if .role }}
app.kubernetes.io/component: {{ .role }}
{{- end }}
{{- end -}}

{{- define "baton.labels" -}}
{{ include "baton.selector" . }}
app.kubernetes.io/part-of: baton
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* Labels of the pods of a role. */}}
{{- define "baton.podlabels" -}}
{{ include "baton.selector" . }}
app.kubernetes.io/part-of: baton
{{- if ne .role "router" }}
{{ include "baton.pickerlabels" . }}
{{- end }}
{{- end -}}

{{/* By these, endpoint pickers of llm-d know workers and where their metrics are named. */}}
{{- define "baton.pickerlabels" -}}
llm-d.ai/engine-type: baton
llm-d.ai/role: {{ ternary .role "prefill-decode" (eq .root.Values.mode "disaggregated") }}
{{- end -}}

{{/* The roles of this mode, divided by blanks. */}}
{{- define "baton.roles" -}}
{{- ternary "router prefill decode" "router decode" (eq .Values.mode "disaggregated") -}}
{{- end -}}

{{- define "baton.image" -}}
{{- with .Values.image -}}
{{- .repository -}}{{ with .tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Where the model is inside the pods. */}}
{{- define "baton.modeldir" -}}
{{- $base := default "/models" .Values.model.inImage -}}
{{- with .Values.model.path }}{{ trimSuffix "/" $base }}/{{ trimAll "/" . }}{{ else }}{{ $base }}{{ end -}}
{{- end -}}

{{/* The secret with the certificate of a role; "client" is that of the test. */}}
{{- define "baton.tlssecret" -}}
{{- if eq .root.Values.tls.source "certManager" -}}
{{- include "baton.rolename" . }}-tls
{{- else -}}
{{- get .root.Values.tls.secrets .role -}}
{{- end -}}
{{- end -}}

{{/* Labels by which Prometheus knows the release's series, as the monitor's targets get them. */}}
{{- define "baton.promselector" -}}
{{- default (printf "namespace=%q,app_kubernetes_io_instance=%q" .Release.Namespace .Release.Name) .Values.autoscaling.selector -}}
{{- end -}}

{{/* Seconds until a new pod of a role is ready and counts, and some more. A router waits for workers to be ready:
(dict "root" $ "role" NAME "values" VALUES-OF-THE-ROLE). */}}
{{- define "baton.progress" -}}
{{- $v := .root.Values -}}
{{- $roles := ternary (splitList " " (include "baton.roles" .root)) (list .role) (eq .role "router") -}}
{{- $longest := 0 -}}
{{- range $role := $roles }}
{{- $r := get $v $role -}}
{{- $longest = max $longest (add (int $r.loadTimeoutSeconds) (int (include "baton.grace" $r))) -}}
{{- end -}}
{{- $download := ternary (int $v.model.download.timeoutSeconds) 0 (not (empty $v.model.download.image)) -}}
{{- add $longest $download (int .values.minReadySeconds) 300 -}}
{{- end -}}

{{/* Seconds from the order to end a pod until it is killed. A process that drains as it should ends minutes earlier; of
one that does not BatonDrainTimeout has to be told while it is there: 105 s after the drain's time at the latest, which is
what it waits (30 s), until the process is scraped (15 s), and twice until rules are evaluated (30 s each). */}}
{{- define "baton.grace" -}}
{{- $computed := add (int .preStopSeconds) (int .drainSeconds) 120 -}}
{{- default $computed (int .terminationGracePeriodSeconds) -}}
{{- end -}}
