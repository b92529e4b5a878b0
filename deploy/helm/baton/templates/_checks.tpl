{{/* What the schema cannot see: values that do not fit together. All that is wrong is told at once. */}}

{{- define "baton.checks" -}}
{{- $v := .Values -}}
{{- $wrong := list -}}
{{- $roles := splitList " " (include "baton.roles" .) -}}
{{- $workers := without $roles "router" -}}

{{- if eq (toString $v.enabled) "false" }}
{{- $wrong = append $wrong "enabled is false, but only a chart that has this one as a part can leave it out, by `condition: baton.enabled` in its Chart.yaml; add that there, or leave enabled true" }}
{{- end }}
{{- if not $v.image.repository }}
{{- $wrong = append $wrong "image.repository is empty; no image is published, so name the one you built, as in --set image.repository=registry.example.org/baton" }}
{{- end }}
{{- if not (or $v.image.tag $v.image.digest) }}
{{- $wrong = append $wrong "image.tag and image.digest are empty; set one of them, for pods of one release have to run the same image" }}
{{- end }}
{{- if not $v.model.name }}
{{- $wrong = append $wrong "model.name is empty; set the name that requests use, as in --set model.name=llama-3.1-8b" }}
{{- end }}

{{- $wrong = concat $wrong (include "baton.checks.names" . | splitList "\n" | compact) }}

{{- $sources := list -}}
{{- range $source := list "existingClaim" "hostPath" "image" "inImage" }}
{{- if get $v.model $source }}{{ $sources = append $sources $source }}{{ end }}
{{- end }}
{{- if $v.model.download.image }}{{ $sources = append $sources "download.image" }}{{ end }}
{{- if ne (len $sources) 1 }}
{{- $wrong = append $wrong (printf "the model comes from %d places (%s); set exactly one of model.existingClaim, model.hostPath, model.image, model.inImage and model.download.image" (len $sources) (default "none" (join ", " $sources))) }}
{{- end }}
{{- if and $v.model.image (not (semverCompare ">=1.35.0-0" .Capabilities.KubeVersion.Version)) }}
{{- $wrong = append $wrong (printf "model.image needs volumes of images, which Kubernetes has from 1.35 on, and this is %s; take model.existingClaim, or model.download.image with a container that copies the files" .Capabilities.KubeVersion.Version) }}
{{- end }}

{{- if eq (int $v.ports.grpc) (int $v.ports.admin) }}
{{- $wrong = append $wrong (printf "ports.grpc and ports.admin are both %d; a pod needs two ports" (int $v.ports.grpc)) }}
{{- end }}

{{- $http := int $v.ports.http }}
{{- if and (gt $http 0) (or (eq $http (int $v.ports.grpc)) (eq $http (int $v.ports.admin))) }}
{{- $wrong = append $wrong (printf "ports.http is %d, as ports.%s; a router needs a port for each" $http (ternary "grpc" "admin" (eq $http (int $v.ports.grpc)))) }}
{{- end }}
{{- if and (gt $http 0) (eq (int $v.router.service.port) (int $v.router.service.httpPort)) }}
{{- $wrong = append $wrong (printf "router.service.port and router.service.httpPort are both %d; the service needs two, or ports.http=0" (int $v.router.service.port)) }}
{{- end }}
{{- if and (eq $http 0) $v.router.httpAllowOrigins }}
{{- $wrong = append $wrong "router.httpAllowOrigins lets pages of browsers ask, but ports.http is 0, so there is nothing that they could ask" }}
{{- end }}
{{- if and $v.router.apiKeys.secret $v.test.enabled (not $v.test.apiKey.secret) }}
{{- $wrong = append $wrong "router.apiKeys is set, so `helm test` needs a key: name the secret that has one in test.apiKey.secret, or set test.enabled=false" }}
{{- end }}
{{- if and $v.test.apiKey.secret (not $v.router.apiKeys.secret) }}
{{- $wrong = append $wrong "test.apiKey has a key, but routers ask for none; set router.apiKeys.secret" }}
{{- end }}
{{- if $v.ingress.enabled }}
{{- if eq $http 0 }}
{{- $wrong = append $wrong "ingress is enabled, but ports.http is 0; an ingress brings HTTP to the routers, so set ports.http=8000" }}
{{- end }}
{{- if not $v.ingress.host }}
{{- $wrong = append $wrong "ingress.host is empty; set the name that clients call, as in --set ingress.host=llm.example.org" }}
{{- end }}
{{- if and (ne $v.tls.source "none") (eq $v.tls.clientCerts "required") }}
{{- $wrong = append $wrong "ingress is enabled, but routers take only clients with a certificate, and an ingress passes none on; set tls.clientCerts=optional, and router.apiKeys for who may ask" }}
{{- end }}
{{- end }}

{{- range $role := $roles }}
{{- $r := get $v $role }}
{{- $least := add (int $r.preStopSeconds) (int $r.drainSeconds) 5 }}
{{- if lt (int (include "baton.grace" $r)) (int $least) }}
{{- $wrong = append $wrong (printf "%s.terminationGracePeriodSeconds is %d, but its pods need preStopSeconds %d + drainSeconds %d + 5 to say goodbye = %d; raise it, or leave it 0 to have it computed" $role (int $r.terminationGracePeriodSeconds) (int $r.preStopSeconds) (int $r.drainSeconds) (int $least)) }}
{{- end }}
{{- if and (eq (trimSuffix "%" (toString $r.rollout.maxSurge)) "0") (eq (trimSuffix "%" (toString $r.rollout.maxUnavailable)) "0") }}
{{- $wrong = append $wrong (printf "%s.rollout.maxSurge and maxUnavailable are both 0, so no pod could ever be replaced; one of them has to be 1 or more" $role) }}
{{- end }}
{{- range $argument := $r.extraArgs }}
{{- $name := $argument | trimPrefix "--no-" | trimPrefix "--" | splitList "=" | first }}
{{- if has $name (splitList " " (include "baton.ownflags" $)) }}
{{- $wrong = append $wrong (printf "%s.extraArgs has %s, which the chart gives itself; see docs/deploy-kubernetes.md for the value to set" $role $argument) }}
{{- end }}
{{- end }}
{{- if $r.autoscaling.enabled }}
{{- if gt (int $r.autoscaling.minReplicas) (int $r.autoscaling.maxReplicas) }}
{{- $wrong = append $wrong (printf "%s.autoscaling.minReplicas is %d, more than maxReplicas %d" $role (int $r.autoscaling.minReplicas) (int $r.autoscaling.maxReplicas)) }}
{{- end }}
{{- if and (eq $v.autoscaling.with "keda") (ne $role "router") }}
{{- if not $v.autoscaling.prometheus }}
{{- $wrong = append $wrong (printf "%s.autoscaling is enabled with KEDA, which has to be told where Prometheus is: set autoscaling.prometheus, as in http://prometheus.monitoring:9090" $role) }}
{{- end }}
{{- if not (or $v.monitoring.enabled $v.autoscaling.selector) }}
{{- $wrong = append $wrong (printf "%s.autoscaling is enabled, but monitoring is not, so nobody reads the metrics that it is to go by; set monitoring.enabled, or autoscaling.selector to the labels that your own scraping gives" $role) }}
{{- end }}
{{- end }}
{{- if and (eq $role "router") (not (dig "requests" "cpu" "" (default dict $r.resources))) }}
{{- $wrong = append $wrong "router.autoscaling goes by the share of the requested CPU, but router.resources.requests.cpu is not set" }}
{{- end }}
{{- end }}
{{- end }}

{{- $sizes := list (list "router.maxInflightBytes" $v.router.maxInflightBytes "1MiB" "1024GiB") }}
{{- range $role := $workers }}
{{- $w := get $v $role }}
{{- $sizes = concat $sizes (list (list (printf "%s.kvCacheMemory" $role) $w.kvCacheMemory "1" "1024TiB") (list (printf "%s.swapSpace" $role) $w.swapSpace "0" "1024TiB")) }}
{{- end }}
{{- $memory := include "baton.memory" $v.router }}
{{- with default "1GiB" $v.router.maxInflightBytes }}
{{- if and $memory (ge (include "baton.bytes" . | float64) (include "baton.bytes" $memory | float64)) }}
{{- $wrong = append $wrong (printf "router.maxInflightBytes is %s, but router.resources.limits.memory is %s; messages that arrive may take twice as much beside them, so give the limit more than three times as much, or lower maxInflightBytes" . $memory) }}
{{- end }}
{{- end }}
{{- range $size := $sizes }}
{{- $bytes := include "baton.bytes" (index $size 1) | float64 }}
{{- if and (index $size 1) (or (lt $bytes (include "baton.bytes" (index $size 2) | float64)) (gt $bytes (include "baton.bytes" (index $size 3) | float64))) }}
{{- $wrong = append $wrong (printf "%s is %s, but the binary takes %s to %s" (index $size 0) (index $size 1) (index $size 2) (index $size 3)) }}
{{- end }}
{{- end }}

{{- range $role := $workers }}
{{- $w := get $v $role }}
{{- if and $w.kvCacheTokens $w.kvCacheMemory }}
{{- $wrong = append $wrong (printf "%s.kvCacheTokens and %s.kvCacheMemory both give the size of the KV cache; set one of them" $role $role) }}
{{- end }}
{{- $caches := compact (list $w.loadCache.existingClaim $w.loadCache.hostPath $w.loadCache.sizeLimit) }}
{{- if gt (len $caches) 1 }}
{{- $wrong = append $wrong (printf "%s.loadCache has %d places; set one of existingClaim, hostPath and sizeLimit" $role (len $caches)) }}
{{- end }}
{{- $memory := include "baton.memory" $w }}
{{- $taken := list }}
{{- $least := include "baton.bytes" $w.shmSize | int64 }}
{{- range $name := ternary (list "kvCacheMemory" "swapSpace") (list "swapSpace") (eq $w.device "cpu") }}
{{- if get $w $name }}
{{- $taken = append $taken (printf "%s %s" $name (get $w $name)) }}
{{- $least = add $least (include "baton.bytes" (get $w $name) | int64) }}
{{- end }}
{{- end }}
{{- if and $taken $memory (le (include "baton.bytes" $memory | int64) $least) }}
{{- $wrong = append $wrong (printf "%s.resources.limits.memory is %s, but %s and shmSize %s alone take that much, and %s on top; raise it" $role $memory (join ", " $taken) $w.shmSize (ternary "weights come" "the process comes" (eq $w.device "cpu"))) }}
{{- end }}
{{- if eq $w.device "cpu" }}
{{- if ne $v.engine.quantization "none" }}
{{- $wrong = append $wrong (printf "engine.quantization is %s, but %s.device is cpu; fp8 needs Hopper GPUs: set %s.device=cuda or engine.quantization=none" $v.engine.quantization $role $role) }}
{{- end }}
{{- if eq $v.engine.dtype "float16" }}
{{- $wrong = append $wrong (printf "engine.dtype is float16, but %s.device is cpu, which computes in float32 or bfloat16; set %s.device=cuda or engine.dtype=auto" $role $role) }}
{{- end }}
{{- if eq $v.engine.kvTransport "nccl" }}
{{- $wrong = append $wrong (printf "engine.kvTransport is nccl, which goes from GPU to GPU, but %s.device is cpu; set engine.kvTransport=auto" $role) }}
{{- end }}
{{- if $w.gpuMemoryUtilization }}
{{- $wrong = append $wrong (printf "%s.gpuMemoryUtilization is set, but %s.device is cpu; set kvCacheMemory instead" $role $role) }}
{{- end }}
{{- else if eq $v.engine.kvDtype "int8" }}
{{- $wrong = append $wrong (printf "engine.kvDtype is int8, but %s.device is cuda, where KV caches are of floats or fp8; set %s.device=cpu, engine.kvDtype=fp8 or engine.kvDtype=auto" $role $role) }}
{{- end }}
{{- end }}

{{- range $name, $_ := $v.router.tenants }}
{{- if or (has $name (list "router" "prefill" "decode")) (not (regexMatch "^[A-Za-z0-9._-]{1,64}$" $name)) }}
{{- $wrong = append $wrong (printf "router.tenants has %s; a name is 1 to 64 of the characters A-Z a-z 0-9 . _ - and not that of a role" $name) }}
{{- end }}
{{- end }}

{{- if and $v.networkPolicy.enabled $v.monitoring.enabled (not $v.networkPolicy.monitoring) }}
{{- $wrong = append $wrong "monitoring is enabled, but networkPolicy lets nobody read the admin ports; name the pods of Prometheus in networkPolicy.monitoring" }}
{{- end }}

{{- with $v.monitoring.rules }}
{{- if and .enabled (not (or $v.monitoring.enabled $v.autoscaling.selector)) }}
{{- $wrong = append $wrong "monitoring.rules is enabled, but monitoring is not, so nobody reads the metrics that rules are about; set monitoring.enabled, or autoscaling.selector to the labels that your own scraping gives" }}
{{- end }}
{{- $budgets := .slo.budgets }}
{{- $disabled := .disabled }}
{{- range $name := list "answered" "ttft" "itl" }}
{{- $budget := float64 (get $budgets $name) }}
{{- range $alert := list "BatonSloBurnFast" "BatonSloBurnSlow" }}
{{- $threshold := include "baton.rules.threshold" (dict "root" $ "alert" $alert) }}
{{- /* When everything misses the objective, the share that does is 1. */}}
{{- if and (not (has $alert $disabled)) (le (divf 1 $budget) (float64 $threshold)) }}
{{- $wrong = append $wrong (printf "monitoring.rules.slo.budgets.%s is %v, so it is used up 1/%v times as fast as allowed at most, and %s fires above %s, which is never; give less than 1/%s, set monitoring.rules.thresholds.%s below 1/%v, or name the alert in monitoring.rules.disabled" $name $budget $budget $alert $threshold $threshold $alert $budget) }}
{{- end }}
{{- end }}
{{- end }}
{{- $known := splitList " " (include "baton.alertnames" $) }}
{{- range $name := concat (keys .thresholds | sortAlpha) .disabled }}
{{- if not (has $name $known) }}
{{- $wrong = append $wrong (printf "monitoring.rules names an alert %s that there is not; docs/runbook.md lists them" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- if $v.prefill.autoscaling.predictedTokensPerReplica }}
{{- $wrong = append $wrong "prefill.autoscaling.predictedTokensPerReplica is set, but prefill workers draw one token of an answer, so nothing of it is foreseen there; set it for decode" }}
{{- end }}
{{- if $v.prefill.swapSpace }}
{{- $wrong = append $wrong "prefill.swapSpace is set, but prefill workers preempt no answers; set it for decode" }}
{{- end }}
{{- if $v.prefill.autoscaling.tokenMs }}
{{- $wrong = append $wrong "prefill.autoscaling.tokenMs is set, but no answer goes on at prefill workers, so their steps say nothing of the time between tokens; set it for decode, or queueWaitSeconds for prefill" }}
{{- end }}

{{- if eq $v.mode "elastic" }}
{{- if not (has $v.engine.kvTransport (list "auto" "grpc")) }}
{{- $wrong = append $wrong (printf "engine.kvTransport is %s, but elastic workers hand KV caches over by gRPC; set engine.kvTransport=auto" $v.engine.kvTransport) }}
{{- end }}
{{- $scaling := $v.decode.autoscaling }}
{{- $least := ternary $scaling.minReplicas $v.decode.replicas $scaling.enabled }}
{{- if lt (int $least) 2 }}
{{- $wrong = append $wrong (printf "%s is %d, but elastic workers divide two roles among themselves; set 2 or more, or mode=unified" (ternary "decode.autoscaling.minReplicas" "decode.replicas" $scaling.enabled) (int $least)) }}
{{- end }}
{{- if and $scaling.enabled (eq $v.autoscaling.with "hpa") }}
{{- range $value := list "kvUse" "tokenMs" }}
{{- if get $scaling $value }}
{{- $wrong = append $wrong (printf "decode.autoscaling.%s is about workers that decode, but an HPA takes the mean over all pods, and in mode elastic some of them prefill; set autoscaling.with=keda, or decode.autoscaling.%s=0" $value $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- if $v.prefill.autoscaling.enabled }}
{{- $wrong = append $wrong "prefill.autoscaling is enabled, but in mode elastic all workers are those of decode; scale decode, or set mode=disaggregated" }}
{{- end }}
{{- end }}

{{- if eq $v.mode "unified" }}
{{- if $v.router.localPrefillBelow }}
{{- $wrong = append $wrong "router.localPrefillBelow says which prompts decode workers read themselves, but in mode unified they read all; leave it 0 or set mode=disaggregated" }}
{{- end }}
{{- if $v.prefill.autoscaling.enabled }}
{{- $wrong = append $wrong "prefill.autoscaling is enabled, but mode unified has no prefill workers; set mode=disaggregated" }}
{{- end }}
{{- end }}

{{- if eq $v.tls.source "none" }}
{{- if eq $v.tls.clientCerts "optional" }}
{{- $wrong = append $wrong "tls.clientCerts is optional, but there is no TLS; set tls.source to certManager or secrets" }}
{{- end }}
{{- else if eq $v.tls.source "certManager" }}
{{- if not $v.tls.certManager.issuer }}
{{- $wrong = append $wrong "tls.certManager.issuer is empty; name an Issuer of this namespace, or a ClusterIssuer with tls.certManager.issuerKind, that puts its authority into ca.crt, as issuers of kind CA do" }}
{{- end }}
{{- else }}
{{- range $role := $roles }}
{{- if not (get $v.tls.secrets $role) }}
{{- $wrong = append $wrong (printf "tls.secrets.%s is empty; name the secret with the certificate of role %s (docs/tls.md says how to make one)" $role $role) }}
{{- end }}
{{- end }}
{{- if and $v.test.enabled (eq $v.tls.clientCerts "required") (not $v.tls.secrets.client) }}
{{- $wrong = append $wrong "tls.secrets.client is empty; `helm test` needs a client's certificate: name its secret, or set test.enabled=false" }}
{{- end }}
{{- end }}

{{- if $wrong }}
{{- fail (printf "\n\nThe values do not fit together:\n  - %s\n" (join "\n  - " $wrong)) }}
{{- end }}
{{- end -}}

{{/* Flags that the chart gives itself, so that extraArgs must not. */}}
{{- define "baton.ownflags" -}}
host port admin-port http-port http-allow-origins api-keys served-model-name log-format log-level drain-timeout insecure tls-cert tls-key tls-ca decode-workers prefill-workers local-prefill-below max-num-queued-reqs max-input-length max-output-length max-inflight-bytes ignore-eos max-connection-age max-connection-age-grace eos-log eos-log-max-size eos-log-files eos-log-sample tenant tenant-max-running tenant-max-queued trust-tenant-header share-prefix-cache tls-client-certs device tensor-parallel-size dtype kv-dtype quantization kv-transport elastic async-scheduling max-model-len block-size enable-prefix-caching max-num-seqs max-prefill-tokens max-num-batched-tokens kv-cache-tokens max-batched-token-mem kv-cache-memory gpu-memory-utilization swap-space threads load-cache
{{- end -}}

{{/* The limit of a role's memory as text, which values may give as a number; nothing if there is none. */}}
{{- define "baton.memory" -}}
{{- include "baton.text" (dig "limits" "memory" "" (default dict .resources)) -}}
{{- end -}}

{{/* A quantity of Kubernetes, or a size as Baton's flags take it, in bytes; 0 if there is none. */}}
{{- define "baton.bytes" -}}
{{- $units := dict "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 "m" 0.001 -}}
{{- $text := trimSuffix "B" (toString .) -}}
{{- $unit := regexFind "[A-Za-z]+$" $text -}}
{{- printf "%.0f" (mulf (trimSuffix $unit $text | float64) (get $units $unit | default 1.0)) -}}
{{- end -}}
