{{/* Command lines. baton.flag gets (list NAME VALUE) and writes nothing for 0, "" and null. */}}

{{- define "baton.flag" -}}
{{- $value := index . 1 -}}
{{- if $value }}
- {{ printf "--%s=%s" (index . 0) (include "baton.text" $value) | quote }}
{{- end -}}
{{- end -}}

{{/* A value as text. Helm reads all numbers as floating point, which it would write as 1e+06. */}}
{{- define "baton.text" -}}
{{- if kindIs "float64" . -}}
{{- if eq . (float64 (int64 .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* What every process takes: (dict "root" $ "role" NAME "values" VALUES-OF-THE-ROLE). */}}
{{- define "baton.args.process" -}}
{{- $v := .root.Values }}
- {{ include "baton.modeldir" .root | quote }}
{{- include "baton.flag" (list "host" $v.ports.listen) }}
{{- include "baton.flag" (list "port" $v.ports.grpc) }}
{{- include "baton.flag" (list "admin-port" $v.ports.admin) }}
{{- include "baton.flag" (list "served-model-name" $v.model.name) }}
{{- include "baton.flag" (list "log-format" $v.log.format) }}
{{- include "baton.flag" (list "log-level" $v.log.level) }}
{{- include "baton.flag" (list "drain-timeout" (printf "%ds" (int .values.drainSeconds))) }}
{{- if eq $v.tls.source "none" }}
- "--insecure"
{{- else }}
- "--tls-cert=/etc/baton/tls/tls.crt"
- "--tls-key=/etc/baton/tls/tls.key"
- "--tls-ca=/etc/baton/tls/ca.crt"
{{- end }}
{{- end -}}

{{- define "baton.args.router" -}}
{{- $v := .root.Values -}}
{{- $r := .values -}}
{{- include "baton.args.process" . }}
{{- include "baton.flag" (list "decode-workers" (include "baton.workers" (dict "root" .root "role" "decode"))) }}
{{- if eq $v.mode "disaggregated" }}
{{- include "baton.flag" (list "prefill-workers" (include "baton.workers" (dict "root" .root "role" "prefill"))) }}
{{- else if eq $v.mode "elastic" }}
{{- include "baton.flag" (list "prefill-workers" (include "baton.workers" (dict "root" .root "role" "decode"))) }}
{{- end }}
{{- include "baton.flag" (list "local-prefill-below" $r.localPrefillBelow) }}
{{- include "baton.flag" (list "max-num-queued-reqs" $r.maxNumQueuedReqs) }}
{{- include "baton.flag" (list "max-input-length" $r.maxInputLength) }}
{{- include "baton.flag" (list "max-output-length" $r.maxOutputLength) }}
{{- include "baton.flag" (list "max-inflight-bytes" $r.maxInflightBytes) }}
{{- include "baton.flag" (list "ignore-eos" $r.ignoreEos) }}
{{- if gt (int $r.maxConnectionAgeSeconds) 0 }}
{{- include "baton.flag" (list "max-connection-age" (printf "%ds" (int $r.maxConnectionAgeSeconds))) }}
{{- include "baton.flag" (list "max-connection-age-grace" (printf "%ds" (int $r.maxConnectionAgeGraceSeconds))) }}
{{- end }}
{{- if $r.eosLog.enabled }}
- "--eos-log=/var/lib/baton/eos/$(POD_NAME).jsonl"
{{- include "baton.flag" (list "eos-log-max-size" (printf "%dMiB" (int $r.eosLog.maxSizeMiB))) }}
{{- include "baton.flag" (list "eos-log-files" $r.eosLog.files) }}
{{- include "baton.flag" (list "eos-log-sample" $r.eosLog.sample) }}
{{- end }}
{{- include "baton.flag" (list "tenant-max-running" $r.tenantMaxRunning) }}
{{- include "baton.flag" (list "tenant-max-queued" $r.tenantMaxQueued) }}
{{- range $name, $tenant := $r.tenants }}
{{- $parts := list }}
{{- range $key, $flag := dict "weight" "weight" "maxRunning" "max-running" "maxQueued" "max-queued" }}
{{- if hasKey $tenant $key }}
{{- $parts = append $parts (printf "%s=%s" $flag (include "baton.text" (get $tenant $key))) }}
{{- end }}
{{- end }}
{{- include "baton.flag" (list "tenant" (printf "%s:%s" $name (join "," $parts))) }}
{{- end }}
{{- if gt (int $v.ports.http) 0 }}
{{- include "baton.flag" (list "http-port" $v.ports.http) }}
{{- include "baton.flag" (list "http-allow-origins" (join "," $r.httpAllowOrigins)) }}
{{- end }}
{{- if $r.apiKeys.secret }}
- "--api-keys=/etc/baton/keys/keys"
{{- end }}
{{- if $r.trustTenantHeader }}
- "--trust-tenant-header"
{{- end }}
{{- if $r.sharePrefixCache }}
- "--share-prefix-cache"
{{- end }}
{{- if ne $v.tls.source "none" }}
{{- include "baton.flag" (list "tls-client-certs" $v.tls.clientCerts) }}
{{- end }}
{{- end -}}

{{/* The name behind which a router finds all workers of a role. */}}
{{- define "baton.workers" -}}
{{- printf "%s.%s.svc:%d" (include "baton.rolename" .) .root.Release.Namespace (int .root.Values.ports.grpc) -}}
{{- end -}}

{{- define "baton.args.worker" -}}
{{- $e := .root.Values.engine -}}
{{- $w := .values -}}
{{- include "baton.args.process" . }}
{{- if eq .root.Values.mode "elastic" }}
- "--elastic"
{{- end }}
{{- include "baton.flag" (list "device" $w.device) }}
{{- include "baton.flag" (list "tensor-parallel-size" $w.tensorParallelSize) }}
{{- include "baton.flag" (list "dtype" $e.dtype) }}
{{- include "baton.flag" (list "kv-dtype" $e.kvDtype) }}
{{- include "baton.flag" (list "quantization" $e.quantization) }}
{{- include "baton.flag" (list "kv-transport" $e.kvTransport) }}
{{- include "baton.flag" (list "async-scheduling" $e.asyncScheduling) }}
{{- include "baton.flag" (list "max-model-len" $e.maxModelLen) }}
{{- include "baton.flag" (list "block-size" $e.blockSize) }}
{{- if not $e.prefixCaching }}
- "--no-enable-prefix-caching"
{{- end }}
{{- include "baton.flag" (list "max-num-seqs" $w.maxNumSeqs) }}
{{- include "baton.flag" (list "max-prefill-tokens" $w.maxPrefillTokens) }}
{{- include "baton.flag" (list "max-num-batched-tokens" $w.maxNumBatchedTokens) }}
{{- include "baton.flag" (list "max-num-queued-reqs" $w.maxNumQueuedReqs) }}
{{- include "baton.flag" (list "kv-cache-tokens" $w.kvCacheTokens) }}
{{- include "baton.flag" (list "kv-cache-memory" $w.kvCacheMemory) }}
{{- if eq $w.device "cuda" }}
{{- include "baton.flag" (list "gpu-memory-utilization" $w.gpuMemoryUtilization) }}
{{- end }}
{{- include "baton.flag" (list "swap-space" $w.swapSpace) }}
{{- include "baton.flag" (list "threads" $w.threads) }}
{{- if include "baton.loadcache" $w }}
- "--load-cache=/var/cache/baton"
{{- end }}
{{- end -}}

{{/* Not empty if the worker has a place for its load cache. */}}
{{- define "baton.loadcache" -}}
{{- with .loadCache }}{{ or .existingClaim .hostPath .sizeLimit }}{{ end -}}
{{- end -}}
