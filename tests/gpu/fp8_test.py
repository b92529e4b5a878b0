"""The part `fp8`: where it is skipped, what each failure costs, what it takes for right."""

import json
import pathlib
import struct
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import figures_test  # noqa: E402
import fp8  # noqa: E402
import plan  # noqa: E402
import sizes  # noqa: E402
import transports  # noqa: E402

HOPPER = {"name": "NVIDIA H200", "compute_cap": "9.0"}
LOG = "12:00 I model 5f9e: weights {} MiB packed, numerics cuda/sm_90/bfloat16/fp8, 1 threads"


class Part(figures_test.Measured):
    def part(self, fails=(), check=lambda *_: "8 answers"):
        """What measure() gives on a GPU whose bench_kernels fails so."""
        self.write_program("bench_kernels", figures_test.BENCH.format(
            python=sys.executable, fails=list(fails), names=figures_test.LINES))
        context = self.make_context()
        context.device, context.gpu = "cuda", HOPPER
        cluster = types.SimpleNamespace(PATIENCE_S=0)
        with mock.patch.object(fp8, "check", check), \
                mock.patch.object(transports, "load_cluster", lambda *_: cluster):
            return self.measure(fp8.measure, fp8.rows(context.sizes), context)

    def test_it_is_skipped_without_a_gpu_and_on_one_without_such_products(self):
        context = self.make_context()
        with self.assertRaisesRegex(plan.Skip, "there are none on --device cpu$"):
            fp8.measure(context, None)
        context.device = "cuda"
        for found in ("8.9", "10.0", "90", "[N/A]"):
            context.gpu = {"name": "GPU X", "compute_cap": found}
            with self.assertRaises(plan.Skip) as caught:
                fp8.measure(context, None)
            self.assertEqual(str(caught.exception), "products of e4m3 need compute capability 9.x "
                                                    f"(Hopper); GPU X has {found}")

    def test_every_row_has_its_figure(self):
        rows, failure, why = self.part()
        self.assertEqual((failure, why), ("", "scales of each row: 8 answers; "
                                              "static input scales: 8 answers; steps: measured"))
        self.assertEqual(len(rows), 6)
        self.assertEqual(rows["fp8, decode, batch 8, context 64"]["baton"],
                         "1.500 ms, 2 GB/s, 5333 tokens/s")
        self.assertNotIn("not measured", [row["baton"] for row in rows.values()])

    def test_bench_kernels_that_fails_costs_only_the_rows_behind_it(self):
        rows, failure, why = self.part([("--quantization fp8", "decode, batch 8")])
        self.assertEqual(failure, "1 of 3 failed; steps: bench_kernels --quantization fp8 ended "
                                  "with 3: INTERNAL: illegal memory access")
        self.assertEqual(why, "scales of each row: 8 answers; static input scales: 8 answers")
        self.assertIn("1.500 ms", rows["fp8, prefill of 2 x 64"]["baton"])
        self.assertEqual([name for name, row in rows.items() if row["baton"] == "not measured"],
                         ["fp8, decode, batch 1, context 64", "fp8, decode, batch 8, context 64"])

    def test_a_checkpoint_that_fails_costs_neither_the_other_nor_the_figures(self):
        def check(_, static):
            if not static:
                raise AssertionError("decode-0 exited with 3")
            return "8 answers"
        rows, failure, why = self.part(check=check)
        self.assertEqual(failure, "1 of 3 failed; scales of each row: decode-0 exited with 3")
        self.assertEqual(why, "static input scales: 8 answers; steps: measured")
        self.assertNotIn("not measured", [row["baton"] for row in rows.values()])

    def test_no_bench_kernels_hides_no_failure(self):
        context = self.make_context()
        context.build.program = lambda _: None
        with self.assertRaisesRegex(plan.Failure, "^bench_kernels is not in b: build it$"):
            fp8.bench(context, None)


class Checkpoints(figures_test.Measured):
    def write_model(self):
        """A checkpoint of a module of 1 MiB of codes, another tensor of 1 MiB, and their config."""
        header = {"__metadata__": {"format": "pt"},
                  "embed.weight": {"dtype": "BF16", "shape": [512, 1024],
                                   "data_offsets": [0, 2**20]},
                  "a.q_proj.weight": {"dtype": "F8_E4M3", "shape": [1024, 1024],
                                      "data_offsets": [2**20, 2**21]}}
        text = json.dumps(header).encode()
        (self.folder / "model.safetensors").write_bytes(
            struct.pack("<Q", len(text)) + text + bytes(2**21))
        inputs = {"num_bits": 8, "strategy": "token", "dynamic": True}
        (self.folder / "config.json").write_text(json.dumps({
            "quantization_config": {"config_groups": {"group_0": {"input_activations": inputs}}}}))
        return self.folder

    def test_a_static_scale_is_added_for_each_weight_of_codes(self):
        folder = self.write_model()
        fp8.add_input_scales(folder, 2.0)
        header, data = fp8.read_header(folder / "model.safetensors")
        self.assertEqual(header["a.q_proj.input_scale"], {"dtype": "F32", "shape": [1],
                                                          "data_offsets": [2**21, 2**21 + 4]})
        self.assertNotIn("embed.input_scale", header)
        self.assertEqual(data, bytes(2**21) + struct.pack("<f", 2.0))
        config = json.loads((folder / "config.json").read_text())["quantization_config"]
        self.assertEqual(config["config_groups"]["group_0"]["input_activations"],
                         {"num_bits": 8, "strategy": "tensor", "dynamic": False})

    def test_codes_that_became_floats_are_told_by_the_memory_that_they_take(self):
        folder = self.write_model()
        self.assertEqual(fp8.check_codes(folder, LOG.format(2)), "cuda/sm_90/bfloat16/fp8")
        with self.assertRaisesRegex(plan.Failure, "take 3 MiB; expected the 2.0 MiB of the check"):
            fp8.check_codes(folder, LOG.format(3))
        with self.assertRaisesRegex(plan.Failure, "does not say how much memory"):
            fp8.check_codes(folder, "no such line")

    def check(self, again=(1, 2, 3, 4), beside=(1, 2, 3, 4), bf16=(1, 2, 3, 4), mib=2):
        """The line of check() where one request is answered (1, 2, 3, 4) at first."""
        def answers(ids):
            tops = [{"top": [{"token_id": i, "logprob": -1.0}, {"token_id": 9, "logprob": -1.01}]}
                    for i in ids]
            return [{"token_ids": list(ids), "logprobs": tops}]
        context = self.make_context()
        context.device, context.gpu = "cuda", HOPPER
        served = (answers((1, 2, 3, 4)), answers(again), answers(beside), LOG.format(mib))
        folder = self.write_model()
        with mock.patch.object(fp8, "make_checkpoint", lambda *_: folder), \
                mock.patch.object(fp8, "serve", lambda *_: served), \
                mock.patch.object(transports, "reference", lambda *_: answers(bf16)):
            return fp8.check(context, False)

    def test_answers_are_equal_when_asked_again_and_otherwise_near(self):
        self.assertEqual(self.check(beside=(1, 2, 3, 9), bf16=(1, 2, 9, 9)),
                         "1 answers equal when asked again, of their tokens 75 % side by side, "
                         "50 % in bf16 (cuda/sm_90/bfloat16/fp8)")
        with self.assertRaisesRegex(plan.Failure, "1 of 1 answers differ when asked again: .* 3 "):
            self.check(again=(1, 2, 3, 9))
        for named in ("beside", "bf16"):
            with self.assertRaisesRegex(plan.Failure, "; expected at least 30 %$"):
                self.check(**{named: (1, 9, 9, 9)})
        with self.assertRaisesRegex(plan.Failure, "codes became floats"):
            self.check(mib=4)

    def test_the_rows_on_a_gpu_are_those_of_bf16(self):
        names = [row.what for row in fp8.rows(sizes.CUDA)]
        self.assertEqual(names[0], "fp8, decode, batch 1, context 1024")
        self.assertEqual(names[-1], "fp8, matmuls of all layers, M = 8192")
        self.assertEqual(len(names), 6)


if __name__ == "__main__":
    unittest.main()
