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

{{/* The roles for each of which an alert has a rule of its own, divided by blanks; "" = one rule for all. Each role has
its own time to drain: (dict "root" $ "rule" RULE). */}}
{{- define "baton.rules.roles" -}}
{{- if eq (default "" .rule.alert) "BatonDrainTimeout" }}{{ include "baton.roles" .root }}{{ end -}}
{{- end -}}

{{/* The threshold of an alert, of the values or else that of files/rules: (dict "root" $ "alert" NAME). */}}
{{- define "baton.rules.threshold" -}}
{{- $given := .root.Values.monitoring.rules.thresholds -}}
{{- if hasKey $given .alert -}}
{{- include "baton.text" (get $given .alert) -}}
{{- else -}}
{{- range (.root.Files.Get "files/rules/alerts.yml" | fromYaml).groups -}}
{{- range .rules -}}
{{- if eq .alert $.alert -}}{{- regexFind `(?m)^[<>] [0-9.]+$` .expr | trimAll "<> " -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
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

{{/* An alert, with the threshold of the values: (dict "root" $ "rule" RULE "role" ROLE); ROLE is one of
baton.rules.roles, or "". */}}
{{- define "baton.rules.alert" -}}
{{- $given := .root.Values.monitoring.rules -}}
{{- $rule := deepCopy .rule -}}
{{- with include "baton.rules.present" . -}}
{{- $parts := regexSplit `\n(?:[<>] )` $rule.expr 2 -}}
{{- $_ := set $rule "expr" (printf "(\n%s\n%s\n)\n< %s" (index $parts 0) . (index $parts 1)) -}}
{{- end -}}
{{- if hasKey $given.thresholds $rule.alert -}}
{{- $threshold := include "baton.rules.threshold" (dict "root" .root "alert" $rule.alert) -}}
{{- $_ := set $rule "expr" (regexReplaceAll `(?m)^([<>]) [0-9.]+$` $rule.expr (printf "${1} %s" $threshold)) -}}
{{- end -}}
{{- $labels := merge (dict "app_kubernetes_io_instance" .root.Release.Name) $rule.labels -}}
{{- with .role -}}
{{- /* A drain that ends as it should is seen for drainSeconds, 5 s of goodbyes, and a scrape more. */ -}}
{{- $_ := set $rule "for" (printf "%ds" (add (int (get $.root.Values .).drainSeconds) 30)) -}}
{{- $_ := set $rule "expr" (replace "baton_server_state{" (printf "baton_server_state{role=%q," .) $rule.expr) -}}
{{- $_ := set $labels "role" . -}}
{{- end -}}
{{- with $given.runbook -}}
{{- $_ := set $rule.annotations "runbook_url" (regexReplaceAll `^[^#]*` $rule.annotations.runbook_url .) -}}
{{- end -}}
{{- $_ := set $rule "labels" $labels -}}
{{- toYaml $rule -}}
{{- end -}}
