import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard
from PIL import Image
from safetensors.torch import load_file, save_file

from vaswani_transformer.evaluation.scores import evaluate_run, score_lines
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.inspection.head_report import report_heads_of_run
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.report.markdown import text as markdown_text
from vaswani_transformer.report.model_card import card_metadata, count_parameters, readable_duration, render_card, write_card
from vaswani_transformer.run_folder import TRANSFER, RunFolder

TEMPLATE = Path(__file__).parents[2] / "model_cards" / "template.md"


def test_every_value_of_the_metadata_survives_the_hubs_own_classes(run: RunFolder) -> None:
    written = card_metadata(load_recipe(run.recipe), read_json(run.evaluation))
    card = ModelCard.load(write_card(run))
    assert card.data.to_dict() == written.to_dict()
    assert card.data.eval_results == written.eval_results
    assert ModelCard(str(card)).data.to_dict() == written.to_dict()

    assert card.data.language == ["en", "de"]
    assert card.data.license == "cc-by-4.0"
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "translation"
    assert card.data.datasets == ["wmt/wmt14"]
    assert card.data.metrics == ["bleu", "chrf", "sacrebleu"]


def test_the_model_index_holds_every_score(run: RunFolder) -> None:
    evaluation = read_json(run.evaluation)
    results = ModelCard.load(write_card(run)).data.eval_results
    assert len(results) == 6  # three metrics on two test sets, none of them merged
    first: EvalResult = results[0]
    test_set = evaluation["test_sets"][0]
    assert (first.task_type, first.dataset_name, first.metric_type) == (
        "translation",
        "toy_test",
        "sacrebleu",
    )
    assert first.metric_value == round(test_set["metrics"]["sacrebleu"]["score"], 2)
    assert first.metric_args == {"signature": test_set["metrics"]["sacrebleu"]["signature"]}
    assert first.dataset_args == {
        "pairs": 12,
        "source_sha256": test_set["source_sha256"],
        "reference_sha256": test_set["reference_sha256"],
    }
    assert results[3].dataset_split == "test[:3]"


def test_the_architecture_names_another_kind_of_attention(run: RunFolder) -> None:
    plain = write_card(run).read_text(encoding="utf-8")
    path = run.averaged / "config.json"
    config = read_json(path)
    newer = {"attention_score", "attention_window", "residual_connections", "parallel_heads"}
    older = {key: value for key, value in config.items() if key not in newer}
    write_json(path, older)
    assert write_card(run).read_text(encoding="utf-8") == plain  # a run from before there was a choice
    write_json(
        path, {**config, "attention_score": "dot_product", "attention_window": 8, "residual_connections": False, "parallel_heads": 4}
    )
    card = write_card(run).read_text(encoding="utf-8")
    rows = [
        "| Scores of attention (`attention_score`) | `dot_product` |",
        "| Positions that self-attention sees (`attention_window`) | 8 |",
        "| Residual connections | none |",
        "| Tokens proposed a step (`parallel_heads`) | 4 |",
    ]
    assert [row for row in card.splitlines() if row not in plain.splitlines() and row.startswith("|")] == rows


def test_the_optimisation_names_what_a_recipe_adds(run: RunFolder) -> None:
    plain = write_card(run).read_text(encoding="utf-8").splitlines()
    recipe = yaml.safe_load(run.recipe.read_text(encoding="utf-8"))
    assert "| Optimiser | Adam, betas 0.9 and 0.98, epsilon 1e-09 |" in plain
    recipe["training"].update(word_dropout=0.1, both_directions_epochs=8, cooldown_share=0.25)
    recipe["training"].update(optimizer="muon", muon_learning_rate_scale=2.0, weight_decay=0.3)
    run.recipe.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    added = [line for line in write_card(run).read_text(encoding="utf-8").splitlines() if line not in plain]
    assert [line for line in added if "Optimiser" in line] == [
        "| Optimiser | Muon for the matrices of the layers, at 2 times the learning rate; Adam for all else with a decoupled weight decay "
        "of 0.3, betas 0.9 and 0.98, epsilon 1e-09 |"
    ]
    assert [line for line in added if "left out" in line] == ["| Words left out of what encoder and decoder read | 0.1 |"]
    assert [line for line in added if "opposite" in line] == [
        "| Epochs that also trained the opposite direction, on half of the pairs | the first 8 |"
    ]
    assert [
        line for line in added if "Learning rate" in line and line.endswith("warm-up, falling to zero over the last 25 % of the updates |")
    ]


def test_a_norwegian_model_is_not_a_boolean(run: RunFolder) -> None:
    text = run.recipe.read_text(encoding="utf-8").replace("target_language: de", "target_language: 'no'")
    run.recipe.write_text(text, encoding="utf-8")
    assert ModelCard.load(write_card(run)).data.language == ["en", "no"]


def test_a_model_of_several_languages_names_them_and_how_to_choose(run: RunFolder) -> None:
    recipe, evaluation = yaml.safe_load(run.recipe.read_text(encoding="utf-8")), read_json(run.evaluation)
    recipe["target_language"] = evaluation["target_language"] = "mul"
    specs = (
        recipe["data"]["train"],
        recipe["data"]["test"].values(),
        [test["corpus"] for test in evaluation["test_sets"]],
    )
    for language, *both in zip(("de", "fr"), *specs, strict=True):
        for spec in both:
            spec["target_language"] = language
    recipe["data"]["validation"]["target_language"] = "fr"
    evaluation["test_sets"][0]["tgt_lang"], evaluation["test_sets"][1]["tgt_lang"] = "de", "fr"
    run.recipe.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    write_json(run.evaluation, evaluation)
    card = ModelCard.load(write_card(run))
    assert card.data.language == ["en", "de", "fr"]
    assert [result.task_name for result in card.data.eval_results][::3] == [
        "Translation en-de",
        "Translation en-fr",
    ]
    assert "English (`en`) into German, French (`de`, `fr`)" in card.text
    assert card.text.count('pipeline("translation", model="toy_en_de", tgt_lang="de"') == 2
    assert "the fr side as plain text" in card.text


@pytest.mark.parametrize(
    ("licence", "metadata"),
    [
        ("apache-2.0", {"license": "apache-2.0"}),
        ("CC BY-NC-SA 4.0 (Flickr)", {"license": "other", "license_name": "cc-by-nc-sa-4.0-flickr"}),
    ],
)
def test_a_licence_the_hub_does_not_know_gets_a_name(run: RunFolder, licence: str, metadata: dict[str, str]) -> None:
    text = run.recipe.read_text(encoding="utf-8").replace("cc-by-4.0", licence)
    run.recipe.write_text(text, encoding="utf-8")
    data = card_metadata(load_recipe(run.recipe), read_json(run.evaluation)).to_dict()
    assert {key: data[key] for key in data if key.startswith("license")} == metadata


def test_several_licences_are_listed_with_what_they_ask_for_and_whom_to_ask(run: RunFolder) -> None:
    recipe = yaml.safe_load(run.recipe.read_text(encoding="utf-8"))
    recipe["data"]["train"][0] |= {"licence": "cc-by-nc-sa-4.0", "attribution": "The *Authors*"}
    recipe["data"]["test"]["toy_short"]["remark"] = "News it cannot."
    run.recipe.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    text = render_card(run)
    assert "The training data have several, cc-by-nc-sa-4.0 and cc-by-4.0".lower() in text.lower()
    assert "| `text.en` | cc-by-nc-sa-4.0 | The \\*Authors\\* |" in text and "| `wmt/wmt14 de-en train` | cc-by-4.0 |  |" in text
    assert "- no commercial use: `text.en`\n" in text and "- name the authors: `text.en`, `wmt/wmt14 de-en train`\n" in text
    assert "license_name: cc-by-nc-sa-4.0-and-cc-by-4.0" in text
    assert "\n- toy_short: News it cannot.\n" in text and "\n- toy_test: " not in text
    recipe["data"]["licence"] = "none stated; ask"
    run.recipe.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    text = render_card(run)
    assert "for a part of them none is stated (`wmt/wmt14 de-en train`), so ask its owners" in text
    assert "what the owners of `wmt/wmt14 de-en train` allow: its source states no licence" in text
    the_card_is_well_formed(text, TITLES)


def test_the_card_of_another_task_says_for_which_part_no_licence_is_stated(run: RunFolder) -> None:
    recipe = yaml.safe_load(run.recipe.read_text(encoding="utf-8"))
    kept = {name: recipe[name] for name in ("name", "source_language", "data", "tokenizer")}
    recipe = {**kept, "task": "summarization", "training": {"updates": 1200}}
    recipe["data"]["train"][0]["licence"] = "unknown"
    run.recipe.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    evaluation = read_json(run.evaluation)
    for test_set in evaluation["test_sets"]:
        samples = [{**sample, "prediction": sample["translation"]} for sample in test_set["samples"]]
        metrics = {name: {"score": 1.0, "signature": "none"} for name in ("rougeL", "rouge1", "rouge2")}
        test_set |= {"metrics": metrics, "published": [], "cut": 0, "samples": samples}
    write_json(run.evaluation, evaluation)
    text = render_card(run)
    assert "for a part of them none is stated (`text.en`), so ask its owners" in text and "the conditions of all of them" not in text


def test_the_card_tells_what_is_copied_and_how(run: RunFolder) -> None:
    title = "### Inline code, placeholders and numbers"
    assert title not in render_card(run)
    evaluation = evaluate_run(run, progress=False, count_copied=True)
    copied = evaluation["test_sets"][0]["copied"]
    assert (copied["together"]["items_in_source"], copied["together"]["by_reference"]) == (12, 12)
    text = render_card(run)
    share = f"{copied['together']['share']:.1%}"
    assert title in text and f"| toy_test | **all but formatted numbers** | 12 | {share} | 12 | {share} |" in text
    assert f"| toy_test | number | 12 | {share} | 12 | {share} |" in text and "| toy_short | number" not in text
    assert "The search does nothing to keep them." in text
    evaluation = evaluate_run(run, progress=False, count_copied=True, copy_items=True)
    text = render_card(run)
    assert "a constraint in the search (`copy_items`)" in text and "**all but formatted numbers** | 12 | 100.0% |" in text
    assert any("of these copied" in line for line in score_lines(evaluation))
    the_card_is_well_formed(text, TITLES)


def test_the_line_of_the_search_has_all_that_it_does(run: RunFolder) -> None:
    path = run.averaged / "generation_config.json"
    kept = read_json(path)
    write_json(path, {**kept, "num_beams": 4, "length_penalty": 0.6, "length_penalty_type": "gnmt", "extra_length": 50})
    assert ": `num_beams=4`, `length_penalty=0.6`, `length_penalty_type=gnmt`, `extra_length=50`.\n" in render_card(run)
    changed = {"length_penalty": 0.0, "length_penalty_type": None, "extra_length": 0, "copy_items": ["url", "path"]}
    write_json(path, {**kept, "num_beams": 4, **changed})
    assert ": `num_beams=4`, `length_penalty=0.0`, `extra_length=0`, `copy_items=['url', 'path']`.\n" in render_card(run)


def test_the_card_says_what_the_files_say(run: RunFolder) -> None:
    text = render_card(run, model_id="somebody/toy")
    evaluation = read_json(run.evaluation)
    assert "English (`en`) into German (`de`)" in text
    assert 'pipeline("translation", model="somebody/toy")' in text
    assert 'pipeline("translation", model="somebody/toy", trust_remote_code=True)' in text
    for test_set in evaluation["test_sets"]:
        for result in test_set["metrics"].values():
            assert f"{result['score']:.2f}" in text and result["signature"] in text
        for sample in test_set["samples"]:
            assert markdown_text(sample["source"]) in text
    for number in [
        "4,339",
        "4,321",
        "7,654,321",
        "6,543,210",
        "1 h 2 min",
        "3.30e+14",
        "41.02",
        "54,321",
        "1,200",
        "17.25",
    ]:
        assert number in text
    for word in [
        "A processor",
        "step-1100, step-1200",
        "aa" * 32,
        "num_beams=4",
        "length_penalty_type=gnmt",
        "wmt/wmt14",
    ]:
        assert word in text
    assert evaluation["weights_sha256"]["model.safetensors"] in text
    assert "@inproceedings{vaswani2017attention" in text


def test_a_single_checkpoint_is_no_average(run: RunFolder) -> None:
    write_json(run.evaluation, read_json(run.evaluation) | {"averaged_checkpoints": ["step-1200"]})
    text = render_card(run)
    assert "These results come from the last checkpoint (step-1200) and these" in text
    assert "the average of" not in text


TITLES = [
    "Use it", "Results", "Sample translations", "Training data", "Architecture", "Optimisation", "Training cost",
    "Limitations and biases", "Versions", "Citation",
]  # fmt: skip


def the_card_is_well_formed(text: str, titles: list[str]) -> None:
    assert "{{" not in text and "{%" not in text
    assert not re.search(r"[ \t]\n", text.replace("  \n", "")), "a line ends in blanks"
    assert "\n\n\n\n" not in text
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", row) for row in table.splitlines()]
        assert len({len(row) for row in rows}) == 1, table
        assert all(set(cell) <= set("-:") and cell for cell in rows[1][1:-1]), table
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == titles


def test_the_card_is_well_formed_markdown(run: RunFolder) -> None:
    the_card_is_well_formed(render_card(run), TITLES)


def test_no_number_stands_in_the_template() -> None:
    prose = re.sub(r"```.*?```|{{.*?}}|{%.*?%}", "", TEMPLATE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert re.findall(r"\d+", prose.replace("SHA-256", "").replace("`apache-2.0`", "")) == []


def test_tokenised_text_is_called_what_it_is(run: RunFolder) -> None:
    assert "compare it with what others call tokenised BLEU" not in render_card(run)
    text = run.recipe.read_text(encoding="utf-8")
    run.recipe.write_text(text.replace("tokenized: false", "tokenized: true"), encoding="utf-8")
    evaluation = read_json(run.evaluation)
    for test_set in evaluation["test_sets"]:
        test_set["corpus"]["tokenized"] = True
    write_json(run.evaluation, evaluation)
    assert "compare it with what others call tokenised BLEU" in render_card(run)
    assert "nothing has to be prepared" not in render_card(run)


@pytest.mark.parametrize(
    ("origin", "shown", "metadata", "settings", "words"),
    [
        ("/home/me/runs/base/averaged", "base/averaged", None, {}, "| Not trained | nothing |"),
        (
            "runs/base",
            "runs/base",
            None,
            {"freeze": ["encoder"], "layer_decay": 0.75},
            "| Not trained | encoder |",
        ),
        (
            "me/base",
            "me/base",
            "me/base",
            {"lora": {"rank": 3}},
            "LoRA of rank 3, alpha 16, in q_proj, v_proj",
        ),
    ],
)
def test_a_fine_tuned_model_says_what_it_began_with(
    run: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    origin: str,
    shown: str,
    metadata: str | None,
    settings: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.chdir(run.path)
    Path("runs/base").mkdir(parents=True)
    recipe = yaml.safe_load(run.recipe.read_text(encoding="utf-8")) | {"init_from": origin, "model": {}}
    recipe["tokenizer"]["method"] = "extend"
    recipe["fine_tuning"] = settings
    run.recipe.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=r"There is no .*transfer\.json yet: train first"):
        render_card(run)
    run.initial.mkdir()
    write_json(run.initial / TRANSFER, {"init_from": origin, "copied": 1_234, "composed": 2_345, "random": 6})
    card = ModelCard(render_card(run))
    assert "trained from scratch" not in card.text and "/home" not in card.text
    assert f"post-layer normalisation, fine-tuned from `{shown}`)" in card.text
    assert f"| Fine-tuned from | `{shown}` |" in card.text
    assert words in card.text and "1,234, 2,345, 6" in card.text
    assert str(settings.get("layer_decay", "1.0")) in card.text
    assert "is that of the model it was fine-tuned from, with more entries" in card.text
    assert card.data.to_dict().get("base_model") == metadata


def test_the_generated_corpus_is_called_what_it_is(run: RunFolder) -> None:
    assert "not real language" not in render_card(run)
    text = run.recipe.read_text(encoding="utf-8")
    before, _, after = text.partition("  - format: hub")
    rest = after[after.index("  validation:") :]
    run.recipe.write_text(f"{before}  - format: builtin\n    split: train\n{rest}", encoding="utf-8")
    assert "not real language" in render_card(run)


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        ("recipe.yaml", "train first"),
        ("evaluation.json", "vaswani evaluate"),
        ("cleaning.json", "train first"),
        ("training.json", "train first"),
        ("log.jsonl", "train first"),
        ("averaged/model.safetensors", "finish the training"),
        ("averaged/generation_config.json", "finish the training"),
    ],
)
def test_a_missing_stage_is_named(run: RunFolder, missing: str, remedy: str) -> None:
    (run.path / missing).unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(missing)) as error:
        write_card(run)
    assert remedy in str(error.value)
    assert not run.card.exists()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "The best candidate for each of 4,300 sources makes a pair. 2 sources have no translation."),
        ({"best": 3}, "Each of the 3 best candidates for 4,300 sources makes a pair."),
        ({"best": 3, "closest": True, "keep_original": True}, "the one closest to the reference by sentence BLEU makes a pair, and the"),
    ],
)
def test_a_distilled_model_names_its_teacher(run: RunFolder, settings: dict[str, Any], sentence: str) -> None:
    recipe = yaml.safe_load(run.recipe.read_text(encoding="utf-8"))
    recipe["data"]["distillation"] = {"teacher": "/somewhere/runs/big/averaged", **settings}
    run.recipe.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    with pytest.raises(ValueError, match=r"cleaning\.json has no `distillation`"):
        write_card(run)
    facts = {"best": 1, "closest": False, "keep_original": False, "dtype": "int8", "search": {"num_beams": 5}, **settings}
    facts |= {"teacher_sha256": {"model.safetensors": "ab" * 32}, "sources": 4300, "untranslated": 2}
    write_json(run.cleaning, read_json(run.cleaning) | {"distillation": facts})
    text = " ".join(write_card(run).read_text(encoding="utf-8").split())
    assert sentence in text and "a teacher, `big/averaged`, translated the sources with `num_beams=5` in int8" in text
    assert f"| `model.safetensors` | `{'ab' * 32}` |" in text
    assert ("not those of people alone:" in text) == ("keep_original" in settings)


def test_a_missing_value_is_an_error_that_names_its_file(run: RunFolder) -> None:
    training = read_json(run.training)
    del training["flops"]
    write_json(run.training, training)
    with pytest.raises(ValueError, match=r"training\.json has no `flops`"):
        render_card(run)
    write_json(run.training, {**training, "flops": 1.0})

    evaluation = read_json(run.evaluation)
    del evaluation["test_sets"][1]["metrics"]["chrf"]["score"]
    write_json(run.evaluation, evaluation)
    with pytest.raises(ValueError, match=r"evaluation\.json: .*chrf has no `score`"):
        render_card(run)


def test_the_picture_lies_beside_the_card_and_is_linked(run: RunFolder, tmp_path: Path) -> None:
    write_card(run)
    assert "](curves.png)" in run.card.read_text(encoding="utf-8")
    with Image.open(run.curves) as picture:
        assert picture.format == "PNG" and picture.width > picture.height > 400

    card = write_card(run, tmp_path / "cards" / "toy.md")
    assert "](toy.png)" in card.read_text(encoding="utf-8")
    assert card.with_suffix(".png").read_bytes() == run.curves.read_bytes()


def test_what_heads_do_and_are_worth_is_in_the_card(run: RunFolder, tmp_path: Path) -> None:
    heads = report_heads_of_run(run, progress=False)
    plain = render_card(run)
    assert plain.count("| even attention |") == 3 and "Without it" not in plain
    for number, head in enumerate(heads["heads"]):
        head["worth"] = {"bleu": 30 - number, "difference": -number, "p": 0.5 if number < 5 else 0.001}
    heads |= {"bleu": {"score": 30.0, "signature": "nrefs:1|tok:none", "resamples": 1000}}
    heads |= {"layers": [{"kind": "cross", "layer": 0, "head": 1, "bleu": 2.5, "difference": -27.5, "p": 0.001}]}
    write_json(run.heads, heads)
    text = render_card(run)
    the_card_is_well_formed(text, [*TITLES[:5], "What the heads do", *TITLES[5:]])
    section = text.split("## What the heads do")[1].split("## Optimisation")[0]
    rows = [line for line in section.splitlines() if line.startswith("| 1.")]
    assert [" 30.00 | +0.00 |" in row for row in rows] == [True] + [False] * 5
    assert rows[5].endswith("| 25.00 | -5.00\\* |") and "| Cross-attention, 1 | 1.2 | 2.50 | -27.50\\* |" in section
    first = heads["heads"][0]
    assert f"**{first['measures'][first['outstanding']]:.2f}**" in rows[0]
    assert "](heads.png)" in section and "](attention.png)" in section and "p < 0.01 in a" in section

    card = write_card(run, tmp_path / "cards" / "toy.md")
    assert all(f"](toy{end}.png)" in card.read_text(encoding="utf-8") for end in ("", "_heads", "_attention"))
    assert card.with_name("toy_heads.png").read_bytes() == run.heads_picture.read_bytes()
    assert card.with_name("toy_attention.png").read_bytes() == run.attention_picture.read_bytes()
    assert write_card(run) == run.card and run.heads_picture.is_file()


def test_heads_of_other_weights_make_no_card(run: RunFolder) -> None:
    heads = report_heads_of_run(run, progress=False)
    write_json(run.heads, heads | {"weights_sha256": {"model.safetensors": "0" * 64}})
    with pytest.raises(ValueError, match=r"heads\.json was made with other weights than \S+; measure .* \(vaswani heads \S+\), or remove"):
        write_card(run)
    write_json(run.heads, heads)
    run.attention_picture.unlink()
    with pytest.raises(FileNotFoundError, match=r"There is no .*attention\.png yet: measure the heads again"):
        write_card(run)
    assert not run.card.exists()


def test_parameters_are_counted_from_the_weights(run: RunFolder) -> None:
    weights = run.averaged / "model.safetensors"
    assert count_parameters(weights) == sum(tensor.numel() for tensor in load_file(weights).values())


def test_cells_and_durations() -> None:
    assert markdown_text("a | b\n*c* <d> `e`") == r"a \| b \*c\* \<d\> \`e\`"
    assert [readable_duration(s) for s in (6.6, 260, 43_380)] == ["7 s", "4 min 20 s", "12 h 3 min"]


@pytest.mark.parametrize(("metric", "named", "other"), [("bleu", "BLEU", "loss"), ("loss", "loss", "BLEU")])
def test_a_training_that_stopped_early_names_what_stopped_it(run: RunFolder, metric: str, named: str, other: str) -> None:
    text = run.recipe.read_text(encoding="utf-8")
    run.recipe.write_text(text.replace("best_checkpoint_metric: bleu", f"best_checkpoint_metric: {metric}"), encoding="utf-8")
    assert f"| Updates | 1,200, stopped early because validation {named} no longer improved |" in render_card(run)
    assert f"validation {other}" not in render_card(run)
    write_json(run.training, read_json(run.training) | {"stopped_early": False})
    assert "| Updates | 1,200 |" in render_card(run)


@pytest.mark.parametrize(
    "card", sorted(set(TEMPLATE.parent.glob("*.md")) - {TEMPLATE, *(TEMPLATE.with_name(f"{name}.md") for name in ("converted", "task"))})
)
def test_the_cards_of_the_project_speak_as_the_template_does(card: Path) -> None:
    """Their runs are not here to render them again; what the template says in every card stands in each."""
    lines, depth, said = card.read_text(encoding="utf-8").splitlines(), 0, []
    for line in TEMPLATE.read_text(encoding="utf-8").splitlines():
        depth += len(re.findall("{% (?:if|for|macro)", line)) - len(re.findall("{% end", line))
        if depth == 0 and "{%" not in line and "{{" not in line:
            said.append(line)
    assert len(said) > 80
    assert [line for line in said if line not in lines] == []


def test_scores_of_other_weights_make_no_card(run: RunFolder) -> None:
    """As after training on: the average is a new one, the evaluation that of the old."""
    weights = run.averaged / "model.safetensors"
    tensors = {name: tensor + 1 for name, tensor in load_file(weights).items()}
    save_file(tensors, weights)
    write_json(run.training, read_json(run.training) | {"updates": 1600})
    with pytest.raises(
        ValueError, match=r"evaluation\.json was made with other weights than \S+; evaluate the run again \(vaswani evaluate"
    ):
        write_card(run)
    assert not run.card.exists()


def test_a_training_that_went_on_and_has_not_finished_makes_no_card(run: RunFolder) -> None:
    """Until it ends, the average, and the scores, are those of its earlier end."""
    write_json(run.training, read_json(run.training) | {"updates": 1300, "averaged_checkpoints": []})
    with pytest.raises(ValueError, match=r"has not finished, .*; finish it, then evaluate the run again"):
        write_card(run)


def test_a_run_without_a_test_set_shows_scores_of_its_validation_set(run: RunFolder) -> None:
    recipe = yaml.safe_load(run.recipe.read_text(encoding="utf-8"))
    recipe["data"]["test"] = {}
    run.recipe.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    evaluation = evaluate_run(run, progress=False)
    assert [test_set["name"] for test_set in evaluation["test_sets"]] == ["validation"]
    assert score_lines(evaluation)[0] == "The recipe names no test set, so these are scores on the validation set:"
    card = ModelCard.load(write_card(run))
    assert "sacreBLEU on validation (its validation set, since the recipe names no test set)." in card.text
    assert "| Validation set | Sentence pairs |" in card.text and "| Test set |" not in card.text
    assert "expect lower ones on new text" in card.text
    assert {result.dataset_split for result in card.data.eval_results} == {"validation"}


def test_an_evaluation_without_scores_makes_no_card(run: RunFolder) -> None:
    write_json(run.evaluation, read_json(run.evaluation) | {"test_sets": []})
    with pytest.raises(ValueError, match=r"evaluation\.json holds no scores; evaluate the run again"):
        write_card(run)
