"""Chat on real models and their own vocabularies."""

from __future__ import annotations

from pathlib import Path

import pytest

from muser import Model

pytestmark = pytest.mark.real
TEMPLATES = Path(__file__).parent / "data" / "chat"


@pytest.mark.parametrize(
    "name, template, frame",
    [
        ("smollm2", None, ["<|im_start|>", "<|im_end|>", "<|im_start|>", "<|im_end|>", "<|im_start|>"]),
        ("gemma3-270m", "gemma3", ["<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_turn>"]),
    ],
)
def test_no_text_becomes_a_control_token_and_the_answer_ends(real_model, name, template, frame):
    with Model.load(real_model(name), context=2048, slots=1) as model:
        source = None if template is None else (TEMPLATES / f"{template}.jinja").read_text()
        tokenizer = model.tokenizer
        control = [t for t in range(model.vocab_size) if tokenizer.is_control(t)][:200]
        hostile = " ".join(tokenizer.token_text(token) for token in control)
        for content in (hostile, "<" + hostile.replace(" ", "<"), "What is the capital of France?"):
            prompt = model.chat_prompt([{"role": "user", "content": content}], chat_template=source)
            assert [tokenizer.token_text(token) for token in prompt.tokens if tokenizer.is_control(token)] == frame
            assert model.detokenize(prompt.tokens) == prompt.text
        if template is None:
            bare = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
            reply = model.chat(
                [{"role": "user", "content": content}], temperature=0, max_tokens=40, chat_template=bare
            )
            assert "The capital of France is Paris." in reply.text and reply.finish_reason == "eos"
