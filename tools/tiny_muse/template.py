"""The chat template of the file, as Jinja and as Python.

It speaks Muse Glimmer's protocol (messages with recipients, reasoning strength, function calls); the words of the
system message are its own and short. One thing differs from the real template: a small model answers at once unless it
is asked to think, so the reasoning strength is low where none is given, and a chat with neither a strength nor a system
message nor tools gets no system message. The corpus is written with the functions below; tests/test_tiny_muse.py holds
that they write what the template renders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

DEFAULT_SYSTEM = "You are a helpful AI assistant."
HOW_TO_CALL = """# Functions
To call a function, write:
<atem:function_calls>
<atem:invoke name="NAMESPACE.FUNCTION">
<atem:parameter name="PARAMETER">VALUE</atem:parameter>
</atem:invoke>
</atem:function_calls>
A list or an object is written as JSON, every other value as it is.
// Tool metadata
"""

JINJA = (
    # what the system message ends with
    "{%- set level = reasoning_strength if reasoning_strength is defined and reasoning_strength else '' -%}"
    "{%- macro strength() -%}Reasoning strength: {{ level or 'low' }}.{%- endmacro -%}"
    "{%- set spaces = namespace(seen=[]) -%}"
    "{%- if tools is defined and tools -%}{%- for tool in tools -%}"
    "{%- set f = tool.function if tool.function is defined else tool -%}{%- set space = f.name.split('.')[0] -%}"
    "{%- if space not in spaces.seen -%}{%- set spaces.seen = spaces.seen + [space] -%}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{%- macro functions() -%}{%- if spaces.seen -%}"
    "{{- '\\n\\n' + " + json.dumps(HOW_TO_CALL) + " -}}"
    "{%- for space in spaces.seen -%}{{- '{\"name\": ' + (space | tojson) + '}\\n' -}}{%- endfor -%}"
    "{{- '// Function schemas' -}}"
    "{%- for tool in tools -%}{%- set f = tool.function if tool.function is defined else tool -%}"
    "{{- '\\n{\"name\": ' + (f.name | tojson) + ', \"description\": ' + ((f.description if f.description is defined else '')"
    " | tojson) + ', \"parameters\": ' + ((f.parameters if f.parameters is defined else {}) | tojson) + '}' -}}"
    "{%- endfor -%}{%- endif -%}{%- endmacro -%}"
    "{%- macro recipients() -%}{{- '\\n\\n# Valid recipients: \"self\", ' -}}"
    "{%- for space in spaces.seen -%}{{- '\"' + space + '.*\", ' -}}{%- endfor -%}{{- '\"user\".' -}}{%- endmacro -%}"
    # messages
    "{{- bos_token -}}"
    "{%- if (level or spaces.seen) and (not messages or messages[0]['role'] != 'system') -%}"
    "{{- '<|start|>system<|message|>" + DEFAULT_SYSTEM + "' -}}"
    "{%- if current_date is defined and current_date -%}{{- '\\nCurrent date: ' + current_date + '.' -}}{%- endif -%}"
    "{{- '\\n\\n' + strength() + functions() + recipients() + '<|eot|>' -}}{%- endif -%}"
    "{%- for m in messages -%}{%- if m['role'] == 'system' -%}"
    "{{- '<|start|>system<|message|>' + m['content'] -}}"
    "{%- if 'reasoning strength' not in (m['content'] | lower) -%}{{- '\\n\\n' + strength() -}}{%- endif -%}"
    "{{- functions() + recipients() + '<|eot|>' -}}"
    "{%- elif m['role'] == 'assistant' -%}"
    "{%- if m['reasoning_content'] -%}{{- '<|start|>assistant to=self<|message|>' + m['reasoning_content'] + '<|eom|>' -}}{%- endif -%}"
    "{%- if m['tool_calls'] -%}{%- for call in m['tool_calls'] -%}{%- set f = call.function -%}"
    "{{- '<|start|>assistant to=' + f.name + '<|message|><atem:function_calls>\\n<atem:invoke name=\"' + f.name + '\">\\n' -}}"
    "{%- for key, value in f.arguments.items() -%}{{- '<atem:parameter name=\"' + key + '\">' -}}"
    "{{- value if value is string else (value | tojson) -}}{{- '</atem:parameter>\\n' -}}{%- endfor -%}"
    "{{- '</atem:invoke>\\n</atem:function_calls>' + ('<|eot|>' if loop.last else '<|eom|>') -}}{%- endfor -%}"
    "{%- else -%}{{- '<|start|>assistant to=user<|message|>' + m['content'] + '<|eot|>' -}}{%- endif -%}"
    "{%- elif m['role'] == 'tool' -%}"
    "{%- set found = namespace(name=m['name'] or '') -%}"
    "{%- if not found.name and m['tool_call_id'] -%}{%- for q in messages -%}{%- for call in q['tool_calls'] or [] -%}"
    "{%- if call.id is defined and call.id == m['tool_call_id'] -%}{%- set found.name = call.function.name -%}{%- endif -%}"
    "{%- endfor -%}{%- endfor -%}{%- endif -%}"
    "{{- '<|start|>tool ' + found.name + '<|message|><tool_output name=\"' + found.name + '\">\\n' + m['content']"
    " + '\\n</tool_output><|eot|>' -}}"
    "{%- else -%}{{- '<|start|>' + m['role'] + '<|message|>' + m['content'] + '<|eot|>' -}}{%- endif -%}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|start|>assistant' -}}{%- endif -%}"
)

Segment = tuple[str, bool]  # text, and whether the model should learn to write it


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def system(text: str | None, level: str, functions: Sequence[Mapping[str, object]] = ()) -> str:
    """The whole system message of the template; text None: the default one."""
    text = text or DEFAULT_SYSTEM
    if "reasoning strength" not in text.lower():
        text += f"\n\nReasoning strength: {level}."
    spaces = list(dict.fromkeys(str(f["name"]).split(".")[0] for f in functions))
    if functions:
        names = "".join(f'{{"name": {as_json(space)}}}\n' for space in spaces)
        schemas = "".join(
            f'\n{{"name": {as_json(f["name"])}, "description": {as_json(f["description"])}, "parameters": {as_json(f["parameters"])}}}'
            for f in functions
        )
        text += f"\n\n{HOW_TO_CALL}{names}// Function schemas{schemas}"
    listed = "".join(f'"{space}.*", ' for space in spaces)
    return f'<|start|>system<|message|>{text}\n\n# Valid recipients: "self", {listed}"user".<|eot|>'


def user(text: str) -> str:
    return f"<|start|>user<|message|>{text}<|eot|>"


def thinks(text: str) -> str:
    return f"<|start|>assistant to=self<|message|>{text}<|eom|>"


def answers(text: str) -> str:
    return f"<|start|>assistant to=user<|message|>{text}<|eot|>"


def calls(name: str, arguments: Mapping[str, object]) -> str:
    rows = "".join(
        f'<atem:parameter name="{key}">{value if isinstance(value, str) else as_json(value)}</atem:parameter>\n'
        for key, value in arguments.items()
    )
    call = f'<atem:function_calls>\n<atem:invoke name="{name}">\n{rows}</atem:invoke>\n</atem:function_calls>'
    return f"<|start|>assistant to={name}<|message|>{call}<|eot|>"


def returns(name: str, output: str) -> str:
    return f'<|start|>tool {name}<|message|><tool_output name="{name}">\n{output}\n</tool_output><|eot|>'
