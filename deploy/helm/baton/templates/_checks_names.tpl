{{/* What names and labels Kubernetes would refuse, or take twice: a sentence in each line. */}}

{{- define "baton.checks.names" -}}
{{- $name := include "baton.fullname" . -}}
{{- if contains "." $name }}
fullnameOverride is {{ $name }}, but Services are called by it, which have no dots; as in --set fullnameOverride={{ replace "." "-" $name }}
{{- else if gt (len $name) 40 }}
the release's objects would be called {{ $name }}, {{ len $name }} characters where 40 are the most, so that names of Services fit into DNS; set fullnameOverride to a shorter one, as in --set fullnameOverride={{ $name | trunc 40 | trimSuffix "-" }} if no other release here is called that
{{- end }}
{{- /* From 1.36 on Kubernetes takes them by default. */}}
{{- if and (regexMatch "^[0-9]" $name) (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) }}
the release's objects would be called {{ $name }}, but Services are called by it, whose names begin with a letter before Kubernetes 1.36, and this is {{ .Capabilities.KubeVersion.Version }}; set fullnameOverride, as in --set fullnameOverride=llm-{{ $name }}
{{- end }}
{{- range $role := splitList " " (include "baton.roles" .) }}
{{- $r := get $.Values $role }}
{{- $ctx := dict "root" $ "role" $role "values" (omit $r "extraVolumes" "extraVolumeMounts" "env") }}
{{- range $variable := $r.env }}
{{- range (include "baton.container" $ctx | fromYaml).env }}
{{- if eq .name (default "" $variable.name) }}
{{ include "baton.checks.given" (list (printf "%s.env" $role) .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key := keys (default dict $r.podLabels) | sortAlpha }}
{{- if hasKey (include "baton.podlabels" $ctx | fromYaml) $key }}
{{ include "baton.checks.given" (list (printf "%s.podLabels" $role) $key) }}
{{- end }}
{{- end }}
{{- range $volume := $r.extraVolumes }}
{{- range include "baton.volumes" $ctx | fromYamlArray }}
{{- if eq .name (default "" $volume.name) }}
{{ include "baton.checks.given" (list (printf "%s.extraVolumes" $role) .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $mount := $r.extraVolumeMounts }}
{{- range (include "baton.container" $ctx | fromYaml).volumeMounts }}
{{- if eq .mountPath (default "" $mount.mountPath) }}
{{ include "baton.checks.given" (list (printf "%s.extraVolumeMounts" $role) .mountPath) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $variable := .Values.model.download.env }}
{{- if has (default "" $variable.name) (list "MODEL_DIR" "MODEL_ROLE") }}
{{ include "baton.checks.given" (list "model.download.env" $variable.name) }}
{{- end }}
{{- end }}
{{- $monitoring := .Values.monitoring }}
{{- $own := include "baton.labels" (dict "root" $) | fromYaml }}
{{- range $value, $labels := dict "labels" $monitoring.labels "rules.labels" $monitoring.rules.labels "dashboards.labels" $monitoring.dashboards.labels }}
{{- range $key := keys (default dict $labels) | sortAlpha }}
{{- if hasKey $own $key }}
{{ include "baton.checks.given" (list (printf "monitoring.%s" $value) $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "baton.checks.given" -}}
{{ index . 0 }} has {{ index . 1 }}, which the chart gives itself, and Kubernetes takes none twice; choose another
{{- end -}}
