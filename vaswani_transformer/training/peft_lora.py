"""Low-rank adapters (Hu et al., 2021) through PEFT: only small matrices beside some of the model's own are trained."""

from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel

from ..recipe import LoraSettings


def add_lora(model: PreTrainedModel, settings: LoraSettings) -> PeftModel:
    """Put adapters into `model` itself and freeze its own weights; the returned object saves the adapters and merges them.

    Raises:
        ValueError: `model` has no module of a name in `settings`, or the name is that of a matrix that encoder, decoder and softmax share.
    """
    shared = _vocabulary_matrices(model)
    config = LoraConfig(
        task_type="SEQ_2_SEQ_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.target_modules),
    )
    adapted: PeftModel = get_peft_model(model, config)
    for name in adapted.targeted_module_names:
        if name in shared:
            raise ValueError(
                f"`fine_tuning.lora.target_modules` names `{name}`, which cannot have an adapter: the loss reads the softmax's own matrix, "
                "and a merged adapter would change every module that shares it; leave it out, or train without `lora`."
            )
    return adapted


def _vocabulary_matrices(model: PreTrainedModel) -> set[str]:
    """Names of the modules that hold the softmax's matrix, or one that they share with another module."""
    owners: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(parameter), set()).add(name.rpartition(".")[0])
    softmax = id(model.get_output_embeddings().weight)
    return {name for matrix, names in owners.items() if matrix == softmax or len(names) > 1 for name in names}
