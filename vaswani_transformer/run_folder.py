"""The name of every file a run writes, once.

Stages hand over folders: each stage reads what the one before it wrote, so any of them can be rerun or replaced alone.
"""

from dataclasses import dataclass
from pathlib import Path

TRANSFER = "transfer.json"
"""In `RunFolder.initial`: what that model was made from, and what became of each vocabulary entry."""


@dataclass(frozen=True)
class RunFolder:
    """The files of one experiment below `path`, in the order in which they are written."""

    path: Path

    @classmethod
    def named(cls, name: str) -> "RunFolder":
        """Where a recipe of this name is trained by default: `runs/NAME`."""
        return cls(Path("runs") / name)

    @property
    def recipe(self) -> Path:
        """The resolved recipe: every setting, defaults and overrides included."""
        return self.path / "recipe.yaml"

    @property
    def lock(self) -> Path:
        """Empty; locked by the training at work."""
        return self.path / "training.lock"

    @property
    def cleaning(self) -> Path:
        """What cleaning kept and dropped, and the hash of every file that was read."""
        return self.path / "cleaning.json"

    @property
    def distilling(self) -> Path:
        """What a teacher has translated so far; it goes once `distilled` is there."""
        return self.path / "distilling"

    @property
    def distilled(self) -> Path:
        """The training pairs with a teacher's translations: line-aligned files, and what made them."""
        return self.path / "distilled"

    @property
    def tokenizer(self) -> Path:
        return self.path / "tokenizer"

    @property
    def encoded(self) -> Path:
        """Memory-mapped token ids, one folder for each split."""
        return self.path / "encoded"

    @property
    def initial(self) -> Path:
        """The model a fine-tuning starts from, with the vocabulary of this run."""
        return self.path / "initial"

    @property
    def log(self) -> Path:
        """One JSON object a line: training intervals and validations."""
        return self.path / "log.jsonl"

    @property
    def training(self) -> Path:
        """What the training cost: updates, tokens, seconds, FLOPs, the first rank's peak of memory, hardware, versions."""
        return self.path / "training.json"

    @property
    def state(self) -> Path:
        """What resuming needs: weights, optimizer, update number."""
        return self.path / "state"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def checkpoint(self, update: int) -> Path:
        """The folder of the checkpoint after `update` updates."""
        return self.checkpoints / f"step-{update}"

    @property
    def averaged(self) -> Path:
        return self.path / "averaged"

    @property
    def evaluation(self) -> Path:
        return self.path / "evaluation.json"

    @property
    def outcomes(self) -> Path:
        """What each text gives to the scores, one test set a line; of tasks whose scores have such parts."""
        return self.path / "outcomes.jsonl"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    @property
    def curves(self) -> Path:
        """Loss and BLEU over updates, as a picture."""
        return self.path / "curves.png"

    @property
    def heads(self) -> Path:
        """What each attention head does, and what it is worth."""
        return self.path / "heads.json"

    @property
    def heads_picture(self) -> Path:
        """The same as a picture; beside it lies one in SVG."""
        return self.path / "heads.png"

    @property
    def attention_picture(self) -> Path:
        """The cross-attention of one sentence: all heads of one layer."""
        return self.path / "attention.png"

    @property
    def limits(self) -> Path:
        """What the model cannot do, as far as it has been measured."""
        return self.path / "limits"

    def limit(self, name: str) -> Path:
        """The result of one such measurement, such as `noise`."""
        return self.limits / f"{name}.json"

    @property
    def report(self) -> Path:
        """The whole course of the training as one page."""
        return self.path / "report.html"

    @property
    def published(self) -> Path:
        """The folder that goes to the Hub as it is."""
        return self.path / "published"

    @property
    def space(self) -> Path:
        """The Space that shows the model: a folder that goes to the Hub as it is."""
        return self.path / "space"

    @property
    def static_space(self) -> Path:
        """A translator for a visitor's browser, which goes to the Hub as a Space."""
        return self.path / "static_space"
