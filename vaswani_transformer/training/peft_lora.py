"""Low-rank adapters (Hu et al., 2021) through PEFT: small matrices beside some of the model's own are trained, and nothing else."""

from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel

from ..recipe import LoraSettings


def add_lora(model: PreTrainedModel, settings: LoraSettings) -> PeftModel:
    """Put adapters into `model` itself and freeze its own weights; what is returned saves the adapters and merges them.

    Raises:
        ValueError: `model` has no module of a name in `settings`.
    """
    config = LoraConfig(
        task_type="SEQ_2_SEQ_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.target_modules),
    )
    adapted: PeftModel = get_peft_model(model, config)
    return adapted
