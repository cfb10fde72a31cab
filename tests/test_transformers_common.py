"""transformers' own tests of every model, and of generation, on this one.

They are not part of the installed package. The environment variable TRANSFORMERS_SOURCE names a folder that
has them: an unpacked source archive of the installed version (the tests of models) or a checkout of its
repository (besides, those of generation and export).
"""

import importlib
import os
import sys
import types
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from transformers.models.auto import modeling_auto

from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.modeling_tasks import (
    VaswaniEncoderModel,
    VaswaniForMaskedLM,
    VaswaniForQuestionAnswering,
    VaswaniForSequenceClassification,
    VaswaniForTokenClassification,
)
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel

SOURCE = os.environ.get("TRANSFORMERS_SOURCE", "")
if not SOURCE:
    pytest.skip("TRANSFORMERS_SOURCE does not say where transformers' tests are", allow_module_level=True)


def find_transformers_tests() -> Path:
    """Let `import tests.test_modeling_common` find transformers' folder of that name, beside this one.

    Raises:
        FileNotFoundError: TRANSFORMERS_SOURCE is something else.
    """
    folder = Path(SOURCE).resolve() / "tests"
    if not (folder / "test_modeling_common.py").is_file():
        raise FileNotFoundError(f"TRANSFORMERS_SOURCE is {SOURCE}, but {folder} has no test_modeling_common.py.")
    package = sys.modules.setdefault("tests", types.ModuleType("tests"))
    package.__path__ = [*getattr(package, "__path__", []), str(folder)]
    return folder


def mixin(folder: Path, module: str, name: str) -> type:
    """A class of tests; where the folder lacks it, as source archives do, one without tests stands in."""
    if not (folder / f"{module.replace('.', '/')}.py").is_file():
        parent, stand_in = (
            types.ModuleType(f"tests.{module.split('.')[0]}"),
            types.ModuleType(f"tests.{module}"),
        )
        parent.__path__ = []
        setattr(stand_in, name, type(name, (), {}))
        sys.modules.update({parent.__name__: parent, stand_in.__name__: stand_in})
    return getattr(importlib.import_module(f"tests.{module}"), name)


PYTEST_MARKS = {name: getattr(pytest.mark, name) for name in ("filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xfail")}


class KnownMarks:
    """`pytest.mark` for transformers' files: pytest's own marks work, the others mean nothing here."""

    def __getattr__(self, name: str) -> Any:
        return PYTEST_MARKS.get(name, without_mark)


def without_mark(*arguments: Any, **_: Any) -> Any:
    """A mark that does nothing, with settings or without."""
    return arguments[0] if arguments and callable(arguments[0]) else without_mark


FOLDER = find_transformers_tests()
with mock.patch.object(pytest, "mark", KnownMarks()):
    # The third imports the first two.
    mixin(FOLDER, "exporters.test_export", "ExportTesterMixin")
    GENERATION_TESTS = mixin(FOLDER, "generation.test_utils", "GenerationTesterMixin")
    MODEL_TESTS = mixin(FOLDER, "test_modeling_common", "ModelTesterMixin")


class SmallModel:
    """What transformers' tests ask of a model: its sizes, a configuration and inputs."""

    batch_size = 5
    seq_length = 7
    is_training = True
    num_hidden_layers = 2
    hidden_size = 16
    num_attention_heads = 4
    vocab_size = 99

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def get_config(self) -> VaswaniConfig:
        return VaswaniConfig(
            vocab_size=self.vocab_size,
            d_model=self.hidden_size,
            encoder_layers=self.num_hidden_layers,
            decoder_layers=self.num_hidden_layers,
            encoder_attention_heads=self.num_attention_heads,
            decoder_attention_heads=self.num_attention_heads,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            attention_dropout=0.1,
            **self.settings,
        )

    def prepare_config_and_inputs_for_common(self) -> tuple[VaswaniConfig, dict[str, torch.Tensor]]:
        shape = (self.batch_size, self.seq_length)
        source, target = torch.randint(3, self.vocab_size, shape), torch.randint(3, self.vocab_size, shape)
        source[:, -1] = 2
        ones = torch.ones(shape, dtype=torch.long)
        inputs = {"input_ids": source, "attention_mask": ones, "decoder_input_ids": target}
        return self.get_config(), {**inputs, "decoder_attention_mask": ones.clone()}

    prepare_config_and_inputs = prepare_config_and_inputs_for_common


class TestVaswani(MODEL_TESTS, GENERATION_TESTS, unittest.TestCase):  # type: ignore[misc, valid-type]
    """Every test comes from the base classes."""

    all_model_classes = (VaswaniModel, VaswaniForConditionalGeneration)
    is_encoder_decoder = True

    @classmethod
    def setUpClass(cls) -> None:
        """transformers' tests give labels to the classes that these tables name."""
        entries: dict[str, Any] = {
            "MODEL_MAPPING_NAMES": VaswaniModel.__name__,
            "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES": VaswaniForConditionalGeneration.__name__,
        }
        for table, name in entries.items():
            cls.enterClassContext(mock.patch.dict(getattr(modeling_auto, table), {VaswaniConfig.model_type: name}))

    def setUp(self) -> None:
        self.model_tester = SmallModel()


class TestAdditiveAttention(TestVaswani):
    """The same with a score of a feed-forward network."""

    def setUp(self) -> None:
        self.model_tester = SmallModel(attention_score="additive")

    @unittest.skip("only the eager function computes additive scores, and the model refuses others")
    def test_can_set_attention_dynamically(self) -> None:
        """Not for this model."""

    test_sdpa_can_dispatch_non_composite_models = test_can_set_attention_dynamically


class TestUnscaledAttention(TestVaswani):
    """The same without the division by the square root of the width."""

    def setUp(self) -> None:
        self.model_tester = SmallModel(attention_score="dot_product")


class TestRestrictedAttention(TestVaswani):
    """The same where the texts of 7 tokens are longer than what a position sees."""

    def setUp(self) -> None:
        self.model_tester = SmallModel(attention_window=2)

    @unittest.skip("the weights of all blocks are put together in a copy, which no gradient reaches")
    def test_retain_grad_hidden_states_attentions(self) -> None:
        """Not for this model."""


class TestNoResidualConnections(TestVaswani):
    """The same where layers see only the layer before."""

    def setUp(self) -> None:
        self.model_tester = SmallModel(residual_connections=False)


class SmallEncoder(SmallModel):
    """The same for the models that run the encoder alone."""

    def get_config(self) -> VaswaniConfig:
        return super().get_config().for_encoder()

    def prepare_config_and_inputs_for_common(self) -> tuple[VaswaniConfig, dict[str, torch.Tensor]]:
        config, inputs = super().prepare_config_and_inputs_for_common()
        return config, {name: inputs[name] for name in ("input_ids", "attention_mask")}

    prepare_config_and_inputs = prepare_config_and_inputs_for_common


class TestVaswaniTasks(MODEL_TESTS, unittest.TestCase):  # type: ignore[misc, valid-type]
    """Every test comes from the base class."""

    all_model_classes = (
        VaswaniEncoderModel,
        VaswaniForMaskedLM,
        VaswaniForQuestionAnswering,
        VaswaniForSequenceClassification,
        VaswaniForTokenClassification,
    )

    @classmethod
    def setUpClass(cls) -> None:
        """transformers' tests give labels to the classes that these tables name."""
        entries: dict[str, Any] = {
            "MODEL_MAPPING_NAMES": VaswaniEncoderModel.__name__,
            "MODEL_FOR_MASKED_LM_MAPPING_NAMES": VaswaniForMaskedLM.__name__,
            "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES": VaswaniForQuestionAnswering.__name__,
            "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES": VaswaniForSequenceClassification.__name__,
            "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES": VaswaniForTokenClassification.__name__,
        }
        for table, name in entries.items():
            cls.enterClassContext(mock.patch.dict(getattr(modeling_auto, table), {VaswaniConfig.model_type: name}))

    def setUp(self) -> None:
        self.model_tester = SmallEncoder()
