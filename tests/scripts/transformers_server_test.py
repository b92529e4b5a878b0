"""scripts/transformers_server.py beside releases of transformers whose options have other names."""

import dataclasses
import importlib.util
import pathlib
import sys
import types
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/transformers_server.py"


def config_class(page):
    """ContinuousBatchingConfig of a release that calls a page's size `page`."""
    return dataclasses.make_dataclass("ContinuousBatchingConfig", [
        (name, object, None) for name in (page, "num_blocks", "max_batch_tokens", "max_requests_per_batch",
                                          "use_async_batching")])


class Model:
    config = types.SimpleNamespace(eos_token_id=None, vocab_size=256)
    batching = None

    def to(self, _):
        return self

    def eval(self):
        return self

    def init_continuous_batching(self, generation_config, continuous_batching_config):
        del generation_config
        Model.batching = continuous_batching_config
        return types.SimpleNamespace(start=lambda: None)


def load_script(page):
    """The script over stand-ins of torch and transformers."""
    generation = types.ModuleType("transformers.generation")
    generation.ContinuousBatchingConfig = config_class(page)
    transformers = types.ModuleType("transformers")
    transformers.AutoModelForCausalLM = types.SimpleNamespace(from_pretrained=lambda *_, **__: Model())
    transformers.GenerationConfig = dict
    torch = types.ModuleType("torch")
    torch.set_num_threads = lambda _: None
    spec = importlib.util.spec_from_file_location("transformers_server", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"torch": torch, "transformers": transformers,
                                       "transformers.generation": generation}):
        spec.loader.exec_module(script)
    return script


class TransformersServer(unittest.TestCase):
    options = types.SimpleNamespace(threads=1, model="m", device="cpu", kv_tokens=1000, max_batch_tokens=64,
                                    max_requests=8)

    def test_the_size_of_a_page_is_set_under_either_name(self):
        for page in ("page_size", "block_size"):
            load_script(page).Engine(self.options)
            self.assertEqual(vars(Model.batching), {page: 256, "num_blocks": 4, "max_batch_tokens": 64,
                                                    "max_requests_per_batch": 8, "use_async_batching": False})

    def test_a_release_with_neither_is_told(self):
        with self.assertRaisesRegex(SystemExit, "has leaf_size, .*expected page_size or block_size"):
            load_script("leaf_size").Engine(self.options)


if __name__ == "__main__":
    unittest.main()
