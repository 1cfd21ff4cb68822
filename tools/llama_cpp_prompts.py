"""The 20 prompts whose greedy continuations by llama.cpp are on record (record_llama_cpp.py)."""

TEXTS = [
    "Once upon a time, in a village by the sea, there lived",
    "The three most important inventions of the nineteenth century were",
    'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
    "Water boils at 100 degrees Celsius at sea level. On a mountain, however,",
    "Dear Sir or Madam,\n\nI am writing to complain about",
    "1, 1, 2, 3, 5, 8, 13,",
    "Die Hauptstadt von Frankreich ist",
    "Ingredients:\n- 200 g flour\n- 2 eggs\n-",
    "SELECT name, COUNT(*) FROM orders",
    "The quick brown fox jumps over the lazy dog. The lazy dog",
    '"I don\'t believe you," said Martha, and she',
    "In physics, energy is defined as",
]
# Asked as a chat where the model knows how (SmolLM2), as plain text where it does not (Gemma base).
QUESTIONS = [
    "What is the capital of Italy?",
    "Write a short poem about the rain.",
    "Explain photosynthesis to a child of eight.",
    "Give me three tips for learning to cook.",
    "What is 17 + 25?",
    'Translate "good morning" into Spanish.',
    "Why is the sky blue?",
    "Summarize the story of Cinderella in two sentences.",
]
CHATML = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)


def prompts(chat: bool) -> list[str]:
    return TEXTS + [CHATML.format(q) if chat else q for q in QUESTIONS]
