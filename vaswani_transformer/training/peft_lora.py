"""Low-rank adapters (Hu et al., 2021) through PEFT: only small matrices beside some of the model's own are trained."""

from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import PreTrainedModel

from ..modeling_tasks import VaswaniForQuestionAnswering, VaswaniForSequenceClassification, VaswaniForTokenClassification
from ..recipe import LoraSettings

_MAPS = {
    VaswaniForSequenceClassification: (TaskType.SEQ_CLS, "classifier"),
    VaswaniForTokenClassification: (TaskType.TOKEN_CLS, "classifier"),
    VaswaniForQuestionAnswering: (TaskType.QUESTION_ANS, "qa_outputs"),
}
"""By model, PEFT's name of the task and the new map, which PEFT therefore trains as a whole and saves beside the adapters."""


def add_lora(model: PreTrainedModel, settings: LoraSettings) -> PeftModel:
    """Put adapters into `model` itself and freeze its own weights, but the map of an encoder's task; the object saves and merges them.

    Raises:
        ValueError: `model` has no module of a name in `settings`, or the name is that of a matrix that cannot have an adapter.
    """
    shared = _vocabulary_matrices(model)
    task_type, map_to_labels = _MAPS.get(type(model), (TaskType.SEQ_2_SEQ_LM if model.can_generate() else None, None))
    if map_to_labels in settings.target_modules:
        raise ValueError(
            f"`fine_tuning.lora.target_modules` names `{map_to_labels}`, which is new and trained as a whole; leave it out of the list."
        )
    config = LoraConfig(
        task_type=task_type,
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
    softmax = model.get_output_embeddings()
    matrix_of_softmax = None if softmax is None else id(softmax.weight)
    return {name for matrix, names in owners.items() if matrix == matrix_of_softmax or len(names) > 1 for name in names}
