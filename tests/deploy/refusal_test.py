"""Values that make no sense are refused, with a sentence that says what to do."""

import unittest

import chart

# (what is set on top of the least, words of the sentence that has to come)
TOGETHER = [
    (["image.repository="], "image.repository is empty; no image is published, so name the one you built"),
    (["image.tag="], "image.tag and image.digest are empty; set one of them"),
    (["model.name="], "model.name is empty; set the name that requests use"),
    (["model.existingClaim="], "the model comes from 0 places (none); set exactly one of"),
    (["model.hostPath=/srv"], "the model comes from 2 places (existingClaim, hostPath)"),
    (["model.download.image=fetch:1"], "the model comes from 2 places (existingClaim, download.image)"),
    (["ports.admin=50051"], "ports.grpc and ports.admin are both 50051"),
    (["ports.http=8080"], "ports.http is 8080, as ports.admin; a router needs a port for each"),
    (["router.service.httpPort=50051"], "router.service.port and router.service.httpPort are both 50051"),
    (["ports.http=0", "router.httpAllowOrigins={https://a}"], "router.httpAllowOrigins lets pages of browsers ask"),
    (["router.apiKeys.secret=k"], "router.apiKeys is set, so `helm test` needs a key"),
    (["test.apiKey.secret=k"], "test.apiKey has a key, but routers ask for none"),
    (["ingress.enabled=true"], "ingress.host is empty; set the name that clients call"),
    (["ingress.enabled=true", "ingress.host=a", "ports.http=0"], "ingress is enabled, but ports.http is 0"),
    (["ingress.enabled=true", "ingress.host=a", "tls.source=certManager", "tls.certManager.issuer=ca"],
     "routers take only clients with a certificate, and an ingress passes none on"),
    (["decode.terminationGracePeriodSeconds=64"],
     "decode.terminationGracePeriodSeconds is 64, but its pods need preStopSeconds 0 + drainSeconds 60 + 5"),
    (["router.terminationGracePeriodSeconds=60", "router.preStopSeconds=20", "router.drainSeconds=40"],
     "to say goodbye = 65; raise it, or leave it 0"),
    (["fullnameOverride=my.llm"], "fullnameOverride is my.llm, but Services are called by it, which have no dots; as in --set fullnameOverride=my-llm"),
    ([f"fullnameOverride={'a' * 39}-b"], f"the release's objects would be called {'a' * 39}-b, 41 characters where 40 are the most"),
    (["decode.podLabels.app\\.kubernetes\\.io/name=x"], "decode.podLabels has app.kubernetes.io/name, which the chart gives itself"),
    (["decode.podLabels.llm-d\\.ai/role=x"], "decode.podLabels has llm-d.ai/role, which the chart gives itself"),
    (["monitoring.labels.helm\\.sh/chart=x"], "monitoring.labels has helm.sh/chart, which the chart gives itself"),
    (["monitoring.rules.labels.helm\\.sh/chart=x"], "monitoring.rules.labels has helm.sh/chart"),
    (["monitoring.dashboards.labels.helm\\.sh/chart=x"], "monitoring.dashboards.labels has helm.sh/chart"),
    (["decode.env[0].name=GOMP_SPINCOUNT", "decode.env[0].value=x"], "decode.env has GOMP_SPINCOUNT, which the chart gives itself"),
    (["model.existingClaim=", "model.download.image=fetch:1", "model.download.env[0].name=MODEL_DIR",
      "model.download.env[0].value=x"], "model.download.env has MODEL_DIR, which the chart gives itself"),
    (["router.resources.limits.memory=1Gi"], "router.maxInflightBytes is 1GiB, but router.resources.limits.memory is 1Gi"),
    (["decode.extraVolumes[0].name=shm"], "decode.extraVolumes has shm, which the chart gives itself"),
    (["router.extraVolumeMounts[0].mountPath=/tmp"], "router.extraVolumeMounts has /tmp, which the chart gives itself"),
    (["decode.rollout.maxSurge=0"], "decode.rollout.maxSurge and maxUnavailable are both 0"),
    (["decode.rollout.maxSurge=0%"], "decode.rollout.maxSurge and maxUnavailable are both 0"),
    (["decode.rollout.maxSurge=0", "decode.rollout.maxUnavailable=0%"], "are both 0"),
    (["decode.extraArgs={--port=1}"], "decode.extraArgs has --port=1, which the chart gives itself"),
    (["router.extraArgs={--no-share-prefix-cache}"], "router.extraArgs has --no-share-prefix-cache"),
    (["router.autoscaling.enabled=true", "router.autoscaling.maxReplicas=1"],
     "router.autoscaling.minReplicas is 2, more than maxReplicas 1"),
    (["router.autoscaling.enabled=true", "router.resources.requests.cpu="],
     "router.resources.requests.cpu is not set"),
    (["router.autoscaling.enabled=true", "router.resources=null"], "router.resources.requests.cpu is not set"),
    (["decode.autoscaling.enabled=true", "monitoring.enabled=true"],
     "decode.autoscaling is enabled with KEDA, which has to be told where Prometheus is"),
    (["decode.autoscaling.enabled=true", "autoscaling.prometheus=http://p"],
     "but monitoring is not, so nobody reads the metrics"),
    (["decode.kvCacheTokens=100", "decode.kvCacheMemory=1GiB"],
     "decode.kvCacheTokens and decode.kvCacheMemory both give the size"),
    (["decode.loadCache.hostPath=/c", "decode.loadCache.sizeLimit=1Gi"], "decode.loadCache has 2 places"),
    (["engine.quantization=fp8"], "engine.quantization is fp8, but decode.device is cpu"),
    (["engine.dtype=float16"], "engine.dtype is float16, but decode.device is cpu"),
    (["engine.kvDtype=int8", "decode.device=cuda"], "engine.kvDtype is int8, but decode.device is cuda"),
    (["engine.kvDtype=int8", "mode=disaggregated", "prefill.device=cuda"],
     "engine.kvDtype is int8, but prefill.device is cuda"),
    (["engine.kvTransport=nccl", "mode=disaggregated", "decode.device=cuda"],
     "engine.kvTransport is nccl, which goes from GPU to GPU, but prefill.device is cpu"),
    (["decode.gpuMemoryUtilization=1"], "decode.gpuMemoryUtilization is set, but decode.device is cpu"),
    (["router.localPrefillBelow=64"], "in mode unified they read all"),
    (["prefill.autoscaling.predictedTokensPerReplica=9", "mode=disaggregated"], "prefill workers draw one token of an answer"),
    (["prefill.autoscaling.tokenMs=9", "mode=disaggregated"], "no answer goes on at prefill workers"),
    (["prefill.autoscaling.enabled=true"], "mode unified has no prefill workers"),
    (["mode=elastic"], "elastic workers divide two roles among themselves; set 2 or more"),
    (["mode=elastic", "decode.replicas=2", "decode.autoscaling.enabled=true", "autoscaling.with=hpa",
      "decode.autoscaling.kvUse=0"],
     "decode.autoscaling.minReplicas is 1, but elastic workers divide two roles"),
    (["mode=elastic", "decode.autoscaling.enabled=true", "decode.autoscaling.minReplicas=2", "autoscaling.with=hpa"],
     "decode.autoscaling.kvUse is about workers that decode"),
    (["mode=elastic", "decode.autoscaling.enabled=true", "decode.autoscaling.minReplicas=2", "autoscaling.with=hpa",
      "decode.autoscaling.kvUse=0", "decode.autoscaling.tokenMs=40"],
     "set autoscaling.with=keda, or decode.autoscaling.tokenMs=0"),
    (["mode=elastic", "decode.replicas=2", "engine.kvTransport=nccl", "decode.device=cuda"],
     "elastic workers hand KV caches over by gRPC"),
    (["mode=elastic", "decode.replicas=2", "prefill.autoscaling.enabled=true"], "all workers are those of decode"),
    (["router.tenants.decode.weight=1"], "router.tenants has decode; a name is 1 to 64 of"),
    (["router.tenants.a/b.weight=1"], "router.tenants has a/b; a name is 1 to 64 of"),
    (["networkPolicy.enabled=true", "monitoring.enabled=true"], "but networkPolicy lets nobody read the admin ports"),
    (["decode.kvCacheMemory=8GiB"], "decode.resources.limits.memory is 8Gi, but kvCacheMemory 8GiB and shmSize 1Gi alone"),
    (["decode.kvCacheMemory=7168MiB"], "kvCacheMemory 7168MiB and shmSize 1Gi alone take that much"),
    (["decode.kvCacheMemory=4GiB", "decode.swapSpace=3GiB"],
     "is 8Gi, but kvCacheMemory 4GiB, swapSpace 3GiB and shmSize 1Gi alone take that much"),
    (["decode.swapSpace=7GiB", "decode.device=cuda"], "is 8Gi, but swapSpace 7GiB and shmSize 1Gi alone take that much, and the process"),
    (["decode.kvCacheMemory=8GiB", "decode.resources.limits.memory=8589934592"],
     "decode.resources.limits.memory is 8589934592, but kvCacheMemory 8GiB and shmSize 1Gi alone"),
    (["router.maxInflightBytes=4GiB"], "router.maxInflightBytes is 4GiB, but router.resources.limits.memory is 4Gi"),
    (["router.maxInflightBytes=2GiB", "router.resources.limits.memory=2147483648"],
     "router.resources.limits.memory is 2147483648; messages that arrive may take twice as much beside them"),
    (["prefill.swapSpace=1GiB", "mode=disaggregated"], "prefill workers preempt no answers"),
    (["monitoring.rules.enabled=true"], "monitoring.rules is enabled, but monitoring is not"),
    (["monitoring.rules.disabled={BatonNothing}"], "monitoring.rules names an alert BatonNothing that there is not"),
    (["enabled=false"], "enabled is false, but only a chart that has this one as a part can leave it out"),
    (["tls.clientCerts=optional"], "tls.clientCerts is optional, but there is no TLS"),
    (["tls.source=certManager"], "tls.certManager.issuer is empty"),
    (["tls.source=secrets", "tls.secrets.router=r", "test.enabled=false"], "tls.secrets.decode is empty"),
    (["tls.source=secrets", "tls.secrets.router=r", "tls.secrets.decode=d"],
     "tls.secrets.client is empty; `helm test` needs a client's certificate"),
]
# What the schema refuses: the value, and the path that the message names.
SCHEMA = [
    ("replicas=2", "'replicas'"),
    ("enabled=0", "/enabled"),
    ("decode.minReadySeconds=-1", "/decode/minReadySeconds"),
    ("router.minReadySeconds=1m", "/router/minReadySeconds"),
    ("router.replica=2", "'replica'"),
    ("router.replicas=0", "/router/replicas"),
    ("decode.resources.request.cpu=1", "'request'"),
    ("decode.autoscaling.max=3", "'max'"),
    ("tls.certManager.isuer=x", "'isuer'"),
    ("mode=split", "/mode"),
    ("decode.device=gpu", "/decode/device"),
    ("engine.kvTransport=cuda_ipc", "/engine/kvTransport"),
    ("decode.gpuMemoryUtilization=90", "/decode/gpuMemoryUtilization"),
    ("decode.maxNumSeqs=65537", "/decode/maxNumSeqs"),
    ("decode.threads=1025", "/decode/threads"),
    ("engine.maxModelLen=1", "/engine/maxModelLen"),
    ("router.tenants.a.weight=1001", "/router/tenants/a/weight"),
    ("decode.kvCacheMemory=2G", "/decode/kvCacheMemory"),
    ("decode.swapSpace=2G", "/decode/swapSpace"),
    ("router.tenants.a.weight=0", "/router/tenants/a/weight"),
    (f"nameOverride={'a' * 64}", "/nameOverride"),
    ("model.existingClaim=a..b", "/model/existingClaim"),
    ("ingress.host=a-.b", "/ingress/host"),
    ("router.extraArgs={-v}", "/router/extraArgs/0"),
    ("ports.grpc=443", "/ports/grpc"),
    ("ports.http=443", "/ports/http"),
    ("router.apiKeys.key=a/b", "/router/apiKeys/key"),
    ("router.httpAllowOrigins={chat.example.org}", "/router/httpAllowOrigins/0"),
    ("ingress.hosts=a", "'hosts'"),
    ("decode.drainSeconds=30s", "/decode/drainSeconds"),
    ("model.path=../other", "/model/path"),
    ("autoscaling.selector=llm", "/autoscaling/selector"),
    ('autoscaling.selector=\\{job="llm"\\}', "/autoscaling/selector"),
    ('autoscaling.selector=job="llm"\\,', "/autoscaling/selector"),
    ("monitoring.rules.thresholds.BatonErrorRate=x", "/monitoring/rules/thresholds/BatonErrorRate"),
    ("monitoring.rules.slo.ttftSeconds=3", "/monitoring/rules/slo/ttftSeconds"),
    ("monitoring.rules.slo.budgets.answered=1", "/monitoring/rules/slo/budgets/answered"),
    ("monitoring.dashboard.enabled=true", "'dashboard'"),
    # Helm takes out what is null.
    ("prefill=null", "'prefill'"),
    ("decode.loadCache=null", "'loadCache'"),
    ("monitoring.rules.slo=null", "'slo'"),
    ("monitoring.rules.slo.budgets.ttft=null", "'ttft'"),
]


class RefusalTest(unittest.TestCase):
    def refused(self, settings, **options):
        result = chart.template(settings=[*chart.LEAST, *settings], **options)
        self.assertNotEqual(result.returncode, 0, f"{settings} were accepted")
        return result.stderr

    def test_the_least_is_accepted(self):
        self.assertIn("kind: Deployment", chart.render(settings=chart.LEAST))

    def test_caches_of_fp8_are_for_both_devices(self):
        for device in ("cpu", "cuda"):
            with self.subTest(device):
                rendered = chart.render(settings=[*chart.LEAST, "engine.kvDtype=fp8", f"decode.device={device}"])
                self.assertIn("kv-dtype=fp8", rendered)

    def test_values_that_do_not_fit_together(self):
        for settings, sentence in TOGETHER:
            with self.subTest(settings):
                words = self.refused(settings)
                self.assertIn(sentence, words)
                self.assertEqual(words.count("\n  - "), 1, words)

    def test_budgets_with_which_an_alert_could_never_fire(self):
        rules = "monitoring.rules"
        fast = (f"{rules}.slo.budgets.ttft is 0.1, so it is used up 1/0.1 times as fast as allowed at most, and BatonSloBurnFast fires above"
                f" 14.4, which is never; give less than 1/14.4, set {rules}.thresholds.BatonSloBurnFast below 1/0.1, or name the"
                f" alert in {rules}.disabled")
        slow = f"and BatonSloBurnSlow fires above 6, which is never; give less than 1/6, set {rules}.thresholds.BatonSloBurnSlow"
        for jsons, sentences in (
                ([f"{rules}.slo.budgets.ttft=0.1"], [fast]),
                ([f"{rules}.slo.budgets.itl=0.2"], [f"{rules}.slo.budgets.itl is 0.2, so", slow]),
                ([f"{rules}.slo.budgets.answered=0.07"], ["slo.budgets.answered is 0.07, so"]),
                # Thresholds that are given count: a budget of 0.05 burns 20 times as fast at most, which is not above 20.
                ([f"{rules}.thresholds.BatonSloBurnFast=20"], ["budgets.ttft is 0.05, so", "budgets.itl is 0.05, so"]),
                ([f"{rules}.slo.budgets.itl=0.2", f"{rules}.thresholds.BatonSloBurnFast=4"], [slow]),
                ([f"{rules}.slo.budgets.itl=0.2", f'{rules}.disabled=["BatonSloBurnFast"]'], [slow])):
            with self.subTest(jsons):
                words = self.refused([], jsons=jsons)
                for sentence in sentences:
                    self.assertIn(sentence, words)
                self.assertEqual(words.count("\n  - "), len(sentences), words)
        for jsons in ([f"{rules}.slo.budgets.ttft=0.069"], [f"{rules}.thresholds.BatonSloBurnFast=19.9"],
                      [f"{rules}.slo.budgets.ttft=0.1", f"{rules}.thresholds.BatonSloBurnFast=9.5"],
                      [f"{rules}.slo.budgets.ttft=0.5", f'{rules}.disabled=["BatonSloBurnFast","BatonSloBurnSlow"]']):
            chart.render(settings=chart.LEAST, jsons=jsons)

    def test_unknown_and_impossible_values(self):
        for setting, path in SCHEMA:
            with self.subTest(setting):
                words = self.refused([setting])
                self.assertIn("values don't meet the specifications of the schema", words)
                self.assertIn(path, words)

    def test_all_that_is_wrong_is_told_at_once(self):
        words = self.refused(["image.tag=", "model.name=", "ports.admin=50051"])
        self.assertEqual(words.count("\n  - "), 3, words)

    def test_names_that_no_service_can_have(self):
        for release, name in (("1b", "1b-baton"), ("2024.llm", "2024-llm-baton")):
            for kubernetes in ("1.30.0", "1.35.9"):
                words = self.refused([], release=release, kubernetes=kubernetes)
                self.assertIn(f"the release's objects would be called {name}, but Services are", words)
                self.assertIn(f"this is v{kubernetes}; set fullnameOverride, as in --set fullnameOverride=llm-{name}", words)
                self.assertEqual(words.count("\n  - "), 1, words)
            chart.render(settings=[*chart.LEAST, "fullnameOverride=llm"], release=release, kubernetes="1.30.0")
            chart.render(settings=chart.LEAST, release=release, kubernetes="1.36.0")

    def test_releases_whose_names_begin_alike_share_no_objects(self):
        release = f"{'a' * 39}-x"
        words = self.refused([], release=release)
        self.assertIn(f"the release's objects would be called {release}-baton, 47 characters where 40 are the most", words)
        # What a user who has such a release can go on with: the first 40 characters.
        self.assertIn(f"--set fullnameOverride={'a' * 39} if", words)
        self.assertIn(f"name: \"{'a' * 34}-baton-decode\"", chart.render(settings=chart.LEAST, release="a" * 34))

    def test_names_of_volumes_that_are_not_there_are_free(self):
        chart.render(settings=[*chart.LEAST, "router.extraVolumes[0].name=shm", "decode.extraVolumes[0].name=tls",
                               "decode.extraVolumeMounts[0].mountPath=/var/cache/baton"])

    def test_grace_that_just_suffices_is_accepted(self):
        least = chart.render(settings=[*chart.LEAST, "decode.terminationGracePeriodSeconds=65"])
        self.assertIn("terminationGracePeriodSeconds: 65", least)

    def test_memory_that_may_suffice_is_accepted(self):
        for settings in (["decode.kvCacheMemory=6GiB"], ["decode.kvCacheMemory=7GiB", "decode.resources.limits.memory=9G"],
                         ["decode.kvCacheMemory=8GiB", "decode.resources.limits.memory=null"],
                         ["decode.kvCacheMemory=90GiB", "decode.device=cuda"],
                         ["decode.kvCacheMemory=90GiB", "decode.swapSpace=6GiB", "decode.device=cuda"],
                         ["decode.kvCacheMemory=3GiB", "decode.swapSpace=3GiB"],
                         ["router.maxInflightBytes=4095MiB"],
                         ["router.maxInflightBytes=8GiB", "router.resources.limits.memory=null"],
                         ["decode.resources=null", "router.resources=null", "decode.kvCacheMemory=8GiB"]):
            chart.render(settings=[*chart.LEAST, *settings])

    def test_volumes_of_images_need_a_kubernetes_that_has_them(self):
        image = ["model.existingClaim=", "model.image=registry.example.org/m:1"]
        self.assertIn("Kubernetes has from 1.35 on, and this is v1.34.0",
                      self.refused(image, kubernetes="1.34.0"))
        chart.render(settings=[*chart.LEAST, *image], kubernetes="1.35.0")

    def test_kubernetes_without_sleeping_hooks_is_refused(self):
        self.assertIn("chart requires kubeVersion: >=1.30.0-0", self.refused([], kubernetes="1.29.0"))


if __name__ == "__main__":
    unittest.main()
