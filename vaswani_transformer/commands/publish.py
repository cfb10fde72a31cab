"""`vaswani publish`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..run_folder import RunFolder


def publish(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A run's folder, or a published one.")],
    repo_id: Annotated[str | None, typer.Option(metavar="USER/MODEL", help="The repository; without it nothing is uploaded.")] = None,
    revision: Annotated[str | None, typer.Option(metavar="BRANCH", help="Created where it does not exist.", show_default="main")] = None,
    private: Annotated[bool, typer.Option("--private", help="Create the repository as a private one.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Stop before the upload.")] = False,
    allow_useless: Annotated[bool, typer.Option("--allow-useless", help="Upload even a model that says nothing of use.")] = False,
    space: Annotated[bool, typer.Option("--space", help="A Space instead: a page that translates, by Gradio.")] = False,
    static_space: Annotated[bool, typer.Option("--static-space", help="A Space that translates in the visitor's browser.")] = False,
    model_id: Annotated[str | None, typer.Option(metavar="USER/MODEL", help="For a Space's card: the model's own repository.")] = None,
    show: Annotated[int, typer.Option(min=0, metavar="N", help="Of a run: show N results of each test set, and all places.")] = 0,
) -> None:
    """Put a model on the Hugging Face Hub.

    \b
    vaswani publish runs/my_pair --dry-run
    vaswani publish runs/my_pair --repo-id USER/MODEL
    vaswani publish runs/my_pair --space --model-id USER/MODEL --repo-id USER/SPACE
    vaswani publish runs/my_pair --static-space --repo-id USER/SPACE

    The folder, a run's or one assembled before, is loaded in a new process without this package and tried on a sentence there before
    anything leaves this machine. A Space is started in a clean folder, and translates there; a static one needs no server of its own, and
    translates under node and, where Playwright has it, in Chromium. Log in with `hf auth login`, or set HF_TOKEN.
    """
    from ..hub.publish import PublishError
    from ..hub.publish import publish as publish_folder
    from ..run_folder import RunFolder

    if space and static_space:
        raise typer.BadParameter("--space and --static-space are two kinds of Spaces; give one of them.")
    if (space or static_space) and show:
        raise typer.BadParameter("--show prints results of a published model; leave it out with a Space.")
    if model_id is not None and not (space or static_space):
        raise typer.BadParameter("--model-id is for a Space's card; leave it out, or add --space or --static-space.")
    run = RunFolder(folder)
    if show and not run.averaged.is_dir():
        raise typer.BadParameter(f"--show prints results of a finished run, and {folder} is none; leave it out, or give the run's folder.")
    how: dict[str, Any] = {"private": private, "revision": revision, "dry_run": dry_run, "allow_useless": allow_useless}
    try:
        if space:
            from ..hub.space import publish_space

            publish_space(folder, repo_id, model_id=model_id, **how)
        elif static_space:
            from ..hub.static_space import publish_static_space

            publish_static_space(folder, repo_id, model_id=model_id, **how)
        else:
            publish_folder(folder, repo_id, **how)
    except PublishError as error:
        raise OSError(str(error)) from error
    if show:
        _show(run, show)


def _show(run: "RunFolder", sentences: int) -> None:
    """Print results of the published folder, loaded as a user loads it, their scores, and where everything lies."""
    from transformers import pipeline

    from ..files.json_files import read_json
    from ..task_of_folder import task_of

    task: Any = task_of(run.published)
    use: Any = pipeline(task, model=str(run.published))
    choice = ""
    for test_set in read_json(run.evaluation)["test_sets"]:
        language = test_set.get("tgt_lang")
        choice = f', tgt_lang="{language}"' if language else ""
        chosen = {"tgt_lang": language} if language else {}
        for sample in test_set["samples"][:sentences]:
            title = "translation" if task == "translation" else "result     "
            print(f"\n  source       {sample['source']}\n  {title}  {_result(use, task, sample, chosen)}")
            print(f"  reference    {sample['reference']}")
        scores = ", ".join(f"{name} {result['score']:.2f}" for name, result in test_set["metrics"].items())
        print(f"\n{test_set['name']}, {test_set['pairs']} unseen {'pairs' if task == 'translation' else 'texts'}: {scores}")
    places = {
        "model, ready to publish": run.published,
        "model card": run.published / run.card.name,
        "scores and signatures": run.evaluation,
        "training curves": run.curves,
        "training log": run.log,
    }
    asked = 'question="...", context="..."' if task == "question-answering" else '"..."'
    print("\n" + "\n".join(f"{what:<24} {path}" for what, path in places.items()))
    print(f'\nUse it:  import vaswani_transformer\n         from transformers import pipeline\n'
          f'         pipeline("{task}", model="{run.published}"{choice})({asked})')  # fmt: skip


def _result(use: Any, task: str, sample: dict[str, str], chosen: dict[str, str]) -> str:
    """What a pipeline says of a sample in a line: a text, a label, the pieces of the source that have labels, or the hidden tokens."""
    source = sample["source"]
    if task == "question-answering":
        return str(use(question=sample["question"], context=sample["context"])["answer"]) or "no answer"
    if task == "fill-mask":
        if use.tokenizer.mask_token not in source:  # the noise may hide tokens behind others alone
            return "no mask"
        found = use(source)
        return ", ".join(best["token_str"] for best, *_ in (found if isinstance(found[0], list) else [found]))
    output = use(source, **chosen)
    if task == "token-classification":
        return ", ".join(f"{source[one['start'] : one['end']].strip()}: {one['entity']}" for one in output)
    return str(next(iter(output[0].values())))
