{{/* The Deployment of a role: (dict "root" $ "role" NAME "values" VALUES-OF-THE-ROLE). */}}

{{- define "baton.deployment" -}}
{{- $v := .root.Values -}}
{{- $r := .values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "baton.rolename" . | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "baton.labels" . | nindent 4 }}
spec:
  {{- if not $r.autoscaling.enabled }}
  replicas: {{ int $r.replicas }}
  {{- end }}
  # A worker is ready when its model is loaded, perhaps on what another had until it ended, and a router when a
  # worker is. A roll-out may take as long as that.
  progressDeadlineSeconds: {{ include "baton.progress" . }}
  # A pod that is ready is not known yet: routers learn of workers, and clients that balance by themselves of routers,
  # by DNS. Until they do, the pod that it replaces has to stay.
  minReadySeconds: {{ int $r.minReadySeconds }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      {{- toYaml $r.rollout | nindent 6 }}
  selector:
    matchLabels:
      {{- include "baton.selector" . | nindent 6 }}
  template:
    metadata:
      # Without the chart's version: a new chart alone is no reason to load a model again.
      labels:
        {{- include "baton.podlabels" . | nindent 8 }}
        {{- with $r.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $r.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "baton.podspec" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ include "baton.grace" $r }}
      {{- if $r.topologySpread.enabled }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: {{ $r.topologySpread.topologyKey | quote }}
          whenUnsatisfiable: {{ $r.topologySpread.whenUnsatisfiable }}
          labelSelector:
            matchLabels:
              {{- include "baton.selector" . | nindent 14 }}
          matchLabelKeys: [pod-template-hash]
      {{- end }}
      {{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" "runtimeClassName" }}
      {{- with get $r $key }}
      {{ $key }}:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      {{- if $v.model.download.image }}
      initContainers:
        - name: download
          image: {{ $v.model.download.image | quote }}
          {{- with $v.model.download.command }}
          command:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $v.model.download.args }}
          args:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          env:
            - {name: MODEL_DIR, value: {{ include "baton.modeldir" .root | quote }}}
            - {name: MODEL_ROLE, value: {{ .role }}}
            {{- with $v.model.download.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with $r.resources }}
          # The pod's class of service goes by all containers, and a quota by each. This one ends before the other
          # begins, so nothing is taken twice.
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            {{- include "baton.containersecurity" . | nindent 12 }}
          volumeMounts:
            - {name: model, mountPath: /models}
            - {name: tmp, mountPath: /tmp}
      {{- end }}
      containers:
        - name: {{ .role }}
          {{- include "baton.container" . | nindent 10 }}
      volumes:
        {{- include "baton.volumes" . | nindent 8 }}
{{- end -}}

{{/* What holds for every pod, that of the test too. */}}
{{- define "baton.podspec" -}}
serviceAccountName: {{ include "baton.serviceaccount" .root | quote }}
automountServiceAccountToken: false
# Kubernetes would put the addresses of services into variables that read like settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "baton.containersecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "baton.container" -}}
{{- $v := .root.Values -}}
{{- $r := .values -}}
{{- $worker := ne .role "router" -}}
image: {{ include "baton.image" .root | quote }}
imagePullPolicy: {{ $v.image.pullPolicy }}
command: [baton-{{ .role }}]
args:
  {{- include (ternary "baton.args.worker" "baton.args.router" $worker) . | trim | nindent 2 }}
  {{- with $r.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  # How long idle threads of OpenMP spin; more would take the cores from gRPC's threads.
  - {name: GOMP_SPINCOUNT, value: "1000"}
  {{- with $r.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - {name: grpc, containerPort: {{ int $v.ports.grpc }}}
  - {name: admin, containerPort: {{ int $v.ports.admin }}}
  {{- if and (not $worker) (gt (int $v.ports.http) 0) }}
  - {name: http, containerPort: {{ int $v.ports.http }}}
  {{- end }}
# A worker has started when its model is loaded. A router's readiness depends on workers, which may
# come later, so it has started when its page answers.
startupProbe:
  httpGet: {path: {{ ternary "/readyz" "/healthz" $worker }}, port: admin}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ max 1 (div (add (int $r.loadTimeoutSeconds) 4) 5) }}
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- if gt (int $r.preStopSeconds) 0 }}
lifecycle:
  preStop:
    sleep: {seconds: {{ int $r.preStopSeconds }}}
{{- end }}
{{- $resources := deepCopy (default dict $r.resources) }}
{{- if and $worker (eq (default "cpu" $r.device) "cuda") }}
{{- $limits := set (deepCopy (default dict $resources.limits)) $r.gpuResource (int $r.tensorParallelSize) }}
{{- $_ := set $resources "limits" $limits }}
{{- end }}
{{- with $resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "baton.containersecurity" . | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  {{- if not $v.model.inImage }}
  - {name: model, mountPath: /models, readOnly: true}
  {{- end }}
  {{- if ne $v.tls.source "none" }}
  - {name: tls, mountPath: /etc/baton/tls, readOnly: true}
  {{- end }}
  {{- if and (not $worker) $r.apiKeys.secret }}
  # A folder: what is mounted as a file would stay as it was when the secret changes.
  - {name: api-keys, mountPath: /etc/baton/keys, readOnly: true}
  {{- end }}
  {{- if $worker }}
  - {name: shm, mountPath: /dev/shm}
  {{- if include "baton.loadcache" $r }}
  - {name: load-cache, mountPath: /var/cache/baton}
  {{- end }}
  {{- else if $r.eosLog.enabled }}
  - {name: eos-log, mountPath: /var/lib/baton/eos}
  {{- end }}
  {{- with $r.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "baton.volumes" -}}
{{- $v := .root.Values -}}
{{- $r := .values -}}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- with $v.model }}
{{- if .existingClaim }}
- name: model
  persistentVolumeClaim: {claimName: {{ .existingClaim | quote }}, readOnly: true}
{{- else if .hostPath }}
- name: model
  hostPath: {path: {{ .hostPath | quote }}, type: Directory}
{{- else if .image }}
- name: model
  image: {reference: {{ .image | quote }}, pullPolicy: IfNotPresent}
{{- else if .download.image }}
- name: model
  emptyDir: {{ with .download.sizeLimit }}{sizeLimit: {{ . }}}{{ else }}{}{{ end }}
{{- end }}
{{- end }}
{{- if ne $v.tls.source "none" }}
- name: tls
  secret:
    secretName: {{ include "baton.tlssecret" . | quote }}
    # The files are root's and of the group that the process has.
    defaultMode: 288
{{- end }}
{{- if and (eq .role "router") $r.apiKeys.secret }}
- name: api-keys
  secret:
    secretName: {{ $r.apiKeys.secret | quote }}
    items: [{key: {{ $r.apiKeys.key | quote }}, path: keys}]
    defaultMode: 288
{{- end }}
{{- if ne .role "router" }}
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ $r.shmSize }}}
{{- with $r.loadCache }}
{{- if .existingClaim }}
- name: load-cache
  persistentVolumeClaim: {claimName: {{ .existingClaim | quote }}}
{{- else if .hostPath }}
- name: load-cache
  hostPath: {path: {{ .hostPath | quote }}, type: Directory}
{{- else if .sizeLimit }}
- name: load-cache
  emptyDir: {sizeLimit: {{ .sizeLimit }}}
{{- end }}
{{- end }}
{{- else if $r.eosLog.enabled }}
- name: eos-log
  {{- if $r.eosLog.existingClaim }}
  persistentVolumeClaim: {claimName: {{ $r.eosLog.existingClaim | quote }}}
  {{- else }}
  # A pod whose volume is full is evicted. So there is room for all parts and their summaries, for what is
  # being written, and for what is being compressed, as if compression gained nothing.
  emptyDir: {sizeLimit: {{ mul (int $r.eosLog.maxSizeMiB) 2 (add (int $r.eosLog.files) 2) }}Mi}
  {{- end }}
{{- end }}
{{- with $r.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}
