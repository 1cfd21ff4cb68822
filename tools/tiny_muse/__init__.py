"""How the model inside the package is made: corpus, tokenizer, target, drafter, files, measurements. See README.md."""
