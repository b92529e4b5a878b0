{{/* Recording rules and alerts from files/rules, fitted to this release. */}}

{{/* The names of all alerts, divided by blanks. */}}
{{- define "baton.alertnames" -}}
{{- $names := list -}}
{{- range (.Files.Get "files/rules/alerts.yml" | fromYaml).groups }}
{{- range .rules }}{{ $names = append $names .alert }}{{ end }}
{{- end -}}
{{- join " " $names -}}
{{- end -}}

{{/* The text of a file of rules, about this release and with its objectives: (dict "root" $ "file" NAME). What rules
record gets the release's labels by itself; the other series have those that Prometheus gives them. */}}
{{- define "baton.rules.text" -}}
{{- $slo := .root.Values.monitoring.rules.slo -}}
{{- $own := printf "namespace=%q,app_kubernetes_io_instance=%q" .root.Release.Namespace .root.Release.Name -}}
{{- $text := .root.Files.Get (printf "files/rules/%s.yml" .file) -}}
{{- $text = regexReplaceAll `(baton:[a-z0-9_:]+\{[^}]*)job=~"\.\*"` $text (printf "${1}%s" $own) -}}
{{- $text
    | replace `job=~".*"` (include "baton.promselector" .root)
    | replace `le="2.5"` (printf "le=%q" (include "baton.text" $slo.ttftSeconds))
    | replace `le="0.2"` (printf "le=%q" (include "baton.text" $slo.itlSeconds)) -}}
{{- end -}}

{{/* How long a drain may last before that is told: longer than any role's drainSeconds. */}}
{{- define "baton.rules.drain" -}}
{{- $longest := 0 -}}
{{- range $role := splitList " " (include "baton.roles" .) }}
{{- $longest = max $longest (int (get $.Values $role).drainSeconds) }}
{{- end -}}
{{- printf "%ds" (add $longest 60) -}}
{{- end -}}

{{/* A recording rule: (dict "root" $ "rule" RULE). */}}
{{- define "baton.rules.recording" -}}
{{- $labels := merge (dict "namespace" .root.Release.Namespace "app_kubernetes_io_instance" .root.Release.Name) (default dict .rule.labels) -}}
{{- $expr := .rule.expr -}}
{{- with $labels.slo -}}
{{- $given := $.root.Values.monitoring.rules.slo.budgets -}}
{{- $budget := get (dict "answered" $given.answered "ttft" $given.ttft "itl" $given.itl) . -}}
{{- $expr = regexReplaceAll `(?m)^/ [0-9.]+$` $expr (printf "/ %s" (include "baton.text" $budget)) -}}
{{- end -}}
{{- toYaml (dict "record" .rule.record "expr" $expr "labels" $labels) -}}
{{- end -}}

{{/* Of a role whose pods are all gone no series is left to be compared. A release knows which roles it has, so there the
series of another role say that it is to be there: (dict "root" $ "rule" RULE); nothing for other alerts. */}}
{{- define "baton.rules.present" -}}
{{- $other := get (dict "BatonNoReadyRouter" "decode" "BatonNoReadyDecode" "router" "BatonNoReadyPrefill" "router") .rule.alert -}}
{{- if and $other (or (ne .rule.alert "BatonNoReadyPrefill") (eq .root.Values.mode "disaggregated")) -}}
{{- $selector := include "baton.promselector" .root -}}
{{- printf "or 0 * sum by (namespace, model_name) (baton_server_state{role=%q,state=\"ready\",%s})" $other $selector -}}
{{- end -}}
{{- end -}}

{{/* An alert, with the threshold of the values: (dict "root" $ "rule" RULE). */}}
{{- define "baton.rules.alert" -}}
{{- $given := .root.Values.monitoring.rules -}}
{{- $rule := .rule -}}
{{- with include "baton.rules.present" . -}}
{{- $parts := regexSplit `\n(?:[<>] )` $rule.expr 2 -}}
{{- $_ := set $rule "expr" (printf "(\n%s\n%s\n)\n< %s" (index $parts 0) . (index $parts 1)) -}}
{{- end -}}
{{- if hasKey $given.thresholds $rule.alert -}}
{{- $threshold := include "baton.text" (get $given.thresholds $rule.alert) -}}
{{- $_ := set $rule "expr" (regexReplaceAll `(?m)^([<>]) [0-9.]+$` $rule.expr (printf "${1} %s" $threshold)) -}}
{{- end -}}
{{- if eq $rule.alert "BatonDrainTimeout" -}}
{{- $_ := set $rule "for" (include "baton.rules.drain" .root) -}}
{{- end -}}
{{- with $given.runbook -}}
{{- $_ := set $rule.annotations "runbook_url" (regexReplaceAll `^[^#]*` $rule.annotations.runbook_url .) -}}
{{- end -}}
{{- $_ := set $rule "labels" (merge (dict "app_kubernetes_io_instance" .root.Release.Name) $rule.labels) -}}
{{- toYaml $rule -}}
{{- end -}}
