"""Records what fairseq's own code says, for `test_from_fairseq.py`: checkpoints as it saves them, and its ids, logits and translations.

    PYTHONPATH=path/to/fairseq python tests/interop/fairseq/record.py tests/interop/fairseq

It ran with a checkout of fairseq 0.12.2 (3d262bb2), subword-nmt 0.3.8 and sacremoses 0.2.0 on 2026-11-21. The models have random weights
that a few updates have shaped, so that translations end.
"""

import argparse
import io
import json
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.meters import AverageMeter, StopwatchMeter, TimeMeter
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import OmegaConf
from sacremoses import MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from vaswani_transformer.data.builtin.corpus import builtin_pairs

MERGES, UPDATES, WITH_LOGITS = 120, 800, 2
SIZES = {
    **{f"{side}_embed_dim": 16 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
    **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
    "encoder_ffn_embed_dim": 32,
    "decoder_ffn_embed_dim": 24,
}


class Task:
    """What building a model asks of a task."""

    def __init__(self, source: Dictionary, target: Dictionary) -> None:
        self.source_dictionary, self.target_dictionary = source, target


def main() -> None:
    folder = Path(sys.argv[1])
    record(
        folder / "joined",
        "transformer_vaswani_wmt_en_fr_big",
        is_joined=True,
        threshold=40,
        first_release=False,
    )
    record(folder / "separate", "transformer_iwslt_de_en", is_joined=False, threshold=-1, first_release=True)


def record(folder: Path, architecture: str, is_joined: bool, threshold: int, first_release: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    texts = {split: list(zip(*builtin_pairs(split, size), strict=True)) for split, size in (("train", 3000), ("test", 100))}
    tokens = {split: [moses(side, code) for side, code in zip(sides, ("en", "de"), strict=True)] for split, sides in texts.items()}
    codes = io.StringIO()
    learn_bpe(
        io.StringIO("\n".join([*tokens["train"][0], *tokens["train"][1]]) + "\n"),
        codes,
        MERGES,
        num_workers=1,
    )
    (folder / "bpecodes").write_text(codes.getvalue(), encoding="utf-8")
    bpe = BPE(io.StringIO(codes.getvalue()))
    pieces = {split: [[bpe.process_line(line) for line in side] for side in sides] for split, sides in tokens.items()}
    sides = [[*pieces["train"][0], *pieces["train"][1]]] * 2 if is_joined else pieces["train"]
    dictionaries = []
    for lines, code in zip(sides, ("en", "de"), strict=True):
        dictionary = Dictionary()
        for piece in " ".join(lines).split():
            dictionary.add_symbol(piece)
        dictionary.finalize(threshold=threshold, nwords=-1, padding_factor=8)
        dictionary.save(str(folder / f"dict.{code}.txt"))
        dictionaries.append(Dictionary.load(str(folder / f"dict.{code}.txt")))
    ids = {
        split: [
            [dictionary.encode_line(line, add_if_not_exist=False).tolist() for line in lines]
            for lines, dictionary in zip(sides, dictionaries, strict=True)
        ]
        for split, sides in pieces.items()
    }
    settings = argparse.Namespace(arch=architecture, **SIZES, share_all_embeddings=is_joined, source_lang="en", target_lang="de")
    settings.max_source_positions = settings.max_target_positions = 1024
    settings.share_decoder_input_output_embed = True
    ARCH_CONFIG_REGISTRY[architecture](settings)
    torch.manual_seed(1)
    model = ARCH_MODEL_REGISTRY[architecture].build_model(settings, Task(*dictionaries))
    train(model, *ids["train"])
    save(folder / "model.pt", model, settings, first_release)
    (folder / "answers.json").write_text(json.dumps(answers(model, dictionaries[1], *ids["test"])), encoding="utf-8")


def moses(texts: Any, language: str) -> list[str]:
    tokenizer = MosesTokenizer(lang=language)
    return [tokenizer.tokenize(text, aggressive_dash_splits=True, return_str=True, escape=True) for text in texts]


def padded(rows: list[list[int]], left: bool = False) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*[1] * (longest - len(r) if left else 0), *r, *[1] * (0 if left else longest - len(r))] for r in rows])


def train(model: Any, sources: list[list[int]], targets: list[list[int]]) -> None:
    optimizer, random = torch.optim.Adam(model.parameters(), lr=3e-3), torch.Generator().manual_seed(0)
    for _ in range(UPDATES):
        rows = torch.randint(len(sources), (32,), generator=random).tolist()
        labels = padded([targets[row] for row in rows])
        source = [sources[row] for row in rows]
        logits, _ = model(
            padded(source),
            torch.tensor(list(map(len, source))),
            padded([[2, *targets[row][:-1]] for row in rows]),
        )
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=1).backward()
        optimizer.step()
    model.eval()


def save(path: Path, model: Any, settings: argparse.Namespace, first_release: bool) -> None:
    """As releases since 2021 save it, or as those of 2018 did: fused projections, numbered norms, the training's clocks."""
    tensors = OrderedDict(model.state_dict())
    extra: dict[str, Any] = {"train_iterator": {"epoch": 3}, "val_loss": 4.2}
    if not first_release:
        settings.task, settings.criterion, settings.optimizer, settings.lr_scheduler = (
            "translation",
            "cross_entropy",
            None,
            "fixed",
        )
        settings.data = "data"
        whole = OmegaConf.to_container(convert_namespace_to_omegaconf(settings), resolve=True, enum_to_str=True)
        torch.save(
            {
                "args": None,
                "cfg": whole,
                "model": tensors,
                "extra_state": extra,
                "last_optimizer_state": None,
            },
            path,
        )
        return
    old = OrderedDict()
    for name, tensor in tensors.items():
        if "output_projection" in name or ".k_proj." in name or ".v_proj." in name:
            continue
        if ".q_proj." in name:
            tensor = torch.cat([tensors[name.replace(".q_proj.", f".{part}_proj.")] for part in "qkv"])
            name = name.replace(".q_proj.", ".in_proj_")
        norms = [
            "self_attn_layer_norm",
            *["encoder_attn_layer_norm"] * name.startswith("decoder"),
            "final_layer_norm",
        ]
        for number, norm in enumerate(norms):
            name = name.replace(f".{norm}.", f".layer_norms.{number}.")
        old[name] = tensor
    extra["train_meters"] = OrderedDict(train_loss=AverageMeter(), wps=TimeMeter(), train_wall=StopwatchMeter())
    torch.save(
        {"args": settings, "model": old, "extra_state": extra, "optimizer_history": []},
        path,
        _use_new_zipfile_serialization=False,
    )


@torch.no_grad()
def answers(model: Any, dictionary: Dictionary, sources: list[list[int]], targets: list[list[int]]) -> dict[str, Any]:
    source, lengths = padded(sources, left=True), torch.tensor(list(map(len, sources)))
    logits, _ = model(source[:WITH_LOGITS], lengths[:WITH_LOGITS], padded([[2, *row[:-1]] for row in targets[:WITH_LOGITS]]))
    said: dict[str, Any] = {
        "source_ids": sources,
        "target_ids": targets[:WITH_LOGITS],
        "logits": [
            [[round(value, 5) for value in row] for row in rows[: len(target)]]
            for rows, target in zip(logits.tolist(), targets, strict=False)
        ],
    }
    for name, beams in (("greedy", 1), ("beam", 5)):
        generator = SequenceGenerator([model], dictionary, beam_size=beams, max_len_a=0, max_len_b=200)
        found = generator.generate([model], {"net_input": {"src_tokens": source, "src_lengths": lengths}})
        said[name] = [hypotheses[0]["tokens"].tolist() for hypotheses in found]
        print(name, "longest", max(map(len, said[name])), "distinct", len(set(map(tuple, said[name]))))
    return said


if __name__ == "__main__":
    main()
