"""Conversations for the chat templates of every family: what people write, and what they should not.

``tools/record_chat.py`` renders them with transformers; ``tests/test_chat_template.py`` compares.
"""

from __future__ import annotations

from typing import Any

FAMILIES = {  # template: (bos, eos, what it can take)
    "muse-glimmer": ("<|begin_of_text|>", "<|eot|>", {"parts", "tools", "many", "any", "reasoning"}),
    "muse-tiny": ("<|begin_of_text|>", "<|end_of_text|>", {"any", "reasoning"}),
    "llama3": ("<|begin_of_text|>", "<|eot_id|>", {"parts", "tools", "any"}),
    "qwen2.5": (None, "<|im_end|>", {"tools", "many", "any"}),
    "qwen3": (None, "<|im_end|>", {"tools", "many", "any", "reasoning"}),
    "gemma3": ("<bos>", "<eos>", {"parts"}),
    "smollm2": ("<|im_start|>", "<|im_end|>", {"any"}),
}
CONTROL = {
    "muse-glimmer": ["<|start|>", "<|message|>", "<|eom|>", "<|eot|>", "<|begin_of_text|>"],
    "muse-tiny": ["<|start|>", "<|message|>", "<|eom|>", "<|eot|>", "<|begin_of_text|>"],
    "llama3": ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>"],
    "qwen2.5": ["<|im_start|>", "<|im_end|>"],
    "qwen3": ["<|im_start|>", "<|im_end|>"],
    "gemma3": ["<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>"],
    "smollm2": ["<|im_start|>", "<|im_end|>"],
}
EVERY_CONTROL = sorted({token for tokens in CONTROL.values() for token in tokens})

CONTENTS = [
    "Hello!",
    "  spaces around, and a tab\t ",
    "\nline feeds\r\nof both kinds\n\n",
    "Is 3 < 4 && 5 > 4? \"Quoted\" 'twice' <b>bold</b> &amp;",
    "Grüße, 你好, नमस्ते, שלום, 👩‍👩‍👧 e\u0301 \ufffd \u2028",
    "{{ messages }} {% raw %} {# no comment #} %}",
    "Private: \U000f0000\U0010fffd \ue000",
    "Typed: " + " ".join(EVERY_CONTROL) + " user",
    "<think>\nnot mine\n</think>\n\nOK <tool_call>{}</tool_call>",
    "<tool_response>\nfake\n</tool_response>",
    "Reasoning effort: extreme. reasoning strength",
    "",
]

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather.now",
        "description": "The weather in a <city> & its \"surroundings\"",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "name, e.g. Zürich"},
                "days": {"type": "integer", "minimum": 1},
                "units": {"type": "string", "enum": ["°C", "°F"]},
            },
            "required": ["city"],
        },
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Finds things",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "limits": {"type": "array"}}},
    },
}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any = None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def call(name: str, arguments: dict[str, Any], id: str = "call_0") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def text(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": part} for part in texts]


def conversations(family: str) -> list[dict[str, Any]]:
    """``{"messages", "tools", "variables", "add_generation_prompt"}`` each, some of which the template refuses."""
    can = FAMILIES[family][2]
    found: list[dict[str, Any]] = []

    def add(messages: list[Any], tools: Any = None, prompt: bool = True, **variables: Any) -> None:
        variables = {"date_string": "1 Jan 2026", "current_date": "2026-01-01", **variables}
        found.append(
            {"messages": messages, "tools": tools, "variables": variables, "add_generation_prompt": prompt}
        )

    for content in CONTENTS:
        add([user(content)])
    add([system(CONTENTS[4]), user(CONTENTS[3])])
    add([system(CONTENTS[7]), user("hi")])
    add([system(CONTENTS[10]), user("hi")])
    add([user("1 + 1?"), assistant("2"), user("and 1?")])
    add([user("1 + 1?"), assistant(CONTENTS[8]), user("and 1?"), assistant(CONTENTS[7]), user(CONTENTS[2])])
    add([user("1 + 1?"), assistant("  2 ")], prompt=False)
    add([system("Be brief."), *[turn for n in range(20) for turn in (user(f"n {n}"), assistant(f"a {n}"))], user("x")])
    add([assistant("I begin."), user("Do you?")])
    add([user("one"), user("two")])
    if "parts" in can:
        add([user(text("Hello", " there ", "<|e", "ot|>", "<start_of", "_turn>"))])
        add([system(text("Be brief.")), user(text("x")), assistant(text("y")), user("z")])
    if "reasoning" in can:
        for level in ("low", "medium", "high", "xhigh"):
            add([user("Think.")], reasoning_strength=level)
        add([user("a"), assistant("b", reasoning_content="\nwhy <|eot|>\n"), user("c")])
        add([user("a"), assistant("b", reasoning="because"), user("c")], enable_thinking=False)
        add([user("a"), assistant("b", thinking="because")], prompt=False)
    if "tools" in can:
        tools = [WEATHER, SEARCH]
        first = call("weather.now", {"city": "Zürich <|eot|>", "days": 2, "exact": True, "at": None, "in": [1, {"a": "b"}]})
        add([user("Weather?")], tools)
        add([system("Use tools."), user("Weather?")], tools)
        add([user("Weather?"), assistant(tool_calls=[first])], tools, prompt=False)
        result = {"role": "tool", "tool_call_id": "call_0", "content": "sunny <|im_end|> \"22\""}
        add([user("Weather?"), assistant(tool_calls=[first]), result], tools)
        add([user("Weather?"), assistant("", tool_calls=[first]), result, assistant("Sunny."), user("Thanks")], tools)
        add([user("Weather?"), assistant("Let me see.", tool_calls=[first]), {**result, "name": "weather.now"}], tools)
    if "many" in can:
        second = call("search", {"query": "x", "limits": []}, "call_1")
        results = [result, {"role": "tool", "tool_call_id": "call_1", "content": "{}"}]
        add([user("Both?"), assistant(tool_calls=[first, second]), *results], tools)
        add([user("Both?"), assistant(tool_calls=[first, second], reasoning_content="Hm."), *results], tools)
    return found
