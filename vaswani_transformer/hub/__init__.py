"""From a run to a repository of the Hugging Face Hub: card, folder, upload."""
