"""``muser chat``: line by line, and Ctrl-C stops the answer only."""

from __future__ import annotations

import io
import signal

import pytest

import muser
from muser.chat.stream import ChatStream
from muser.cli import main


def converse(monkeypatch, lines, *arguments):
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    return main(["chat", "--temperature", "0", "--context", "256", *arguments])


def test_a_conversation_is_that_of_the_library(capsys, monkeypatch):
    lines = "What does a cow say?\n\nAnd a dog?\n/reset\nWhat does a cow say?"
    assert converse(monkeypatch, lines, "--system", "Be kind.", "--stats") == 0
    with muser.Model.tiny(context=256, slots=1) as model:
        messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "What does a cow say?"}]
        first = model.chat(messages, temperature=0)
        messages += [first.message, {"role": "user", "content": "And a dog?"}]
        second = model.chat(messages, temperature=0)
    out, err = capsys.readouterr()
    assert out == f"{first.text}\n{second.text}\n{first.text}\n"
    assert err.count("tokens/s") == 3


def test_reasoning_stands_in_parentheses(capsys, monkeypatch):
    assert converse(monkeypatch, "What does a cow say?", "--reasoning", "high", "--thinking-budget", "4") == 0
    assert capsys.readouterr().out == "(This is a simple)\nA cow says moo.\n"


def test_ctrl_c_stops_the_answer_and_the_conversation_goes_on(capsys, monkeypatch):
    following, asked = ChatStream.__next__, []

    def interrupted(stream):
        chunk = following(stream)
        asked.append(chunk)
        if len(asked) == 2:
            signal.raise_signal(signal.SIGINT)
        return chunk

    monkeypatch.setattr(ChatStream, "__next__", interrupted)
    assert converse(monkeypatch, "What does a cow say?\nWhat does a cow say?", "--max-tokens", "6") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and len(lines[0]) < len(lines[1])


def test_ctrl_c_before_the_first_token_stops_the_answer_too(capsys, monkeypatch):
    chat_stream, asked = muser.Model.chat_stream, []

    def interrupted(model, *arguments, **options):
        asked.append(arguments)
        if len(asked) == 1:
            signal.raise_signal(signal.SIGINT)
        return chat_stream(model, *arguments, **options)

    monkeypatch.setattr(muser.Model, "chat_stream", interrupted)
    assert converse(monkeypatch, "What does a cow say?\nWhat does a cow say?") == 0
    assert capsys.readouterr().out == "\nA cow says moo.\n"
    assert asked[0][0] == asked[1][0]  # the first question is not part of the conversation


def test_a_line_that_is_not_utf8_is_left_out(capsys, monkeypatch):
    lines = b"caf\xc3\xa9 \xff\nWhat does a cow say?\n\xc3\nWhat does a cow say?"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines), "utf-8"))
    assert main(["chat", "--temperature", "0", "--context", "256"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("A cow says moo.\n") and out.count("\n") == 2
    assert err.splitlines() == ["muser: a line that is not utf-8 is left out"] * 2


def test_a_full_context_is_one_line(capsys, monkeypatch):
    assert converse(monkeypatch, "word " * 300 + "\nHi", "--system", "Be kind.") == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 1 and err.count("\n") == 1 and "context" in err and "/reset" not in err
    assert converse(monkeypatch, "Hi\n" + "word " * 300 + "\nHi") == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 2 and "/reset" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--thinking-budget", "-1"], "thinking_budget must be an integer in 0..2147483647 or None, not -1"),
        (["--system", "a cat " * 300], "context"),  # no question fits behind it
    ],
)
def test_what_the_model_refuses_is_refused_before_the_first_line(monkeypatch, capsys, arguments, message):
    assert converse(monkeypatch, "", *arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--reasoning", "extreme"], ["--thinking-budget", "x"]])
def test_wrong_arguments(arguments, monkeypatch):
    with pytest.raises(SystemExit):
        converse(monkeypatch, "Hi", *arguments)


def test_a_line_that_the_vocabulary_cannot_spell_is_left_out(capsys, monkeypatch):
    chat_stream, asked = muser.Model.chat_stream, []

    def refusing(model, messages, *arguments, **options):
        asked.append(len(messages))
        if "\x04" in messages[-1]["content"]:
            raise muser.ParameterError("no such character", parameter="messages", index=len(messages) - 1, field="content")
        return chat_stream(model, messages, *arguments, **options)

    monkeypatch.setattr(muser.Model, "chat_stream", refusing)
    assert converse(monkeypatch, "a\x04\nHi\na\x04b\nHi", "--max-tokens", "2") == 0
    out, err = capsys.readouterr()
    assert asked == [1, 1, 3, 3] and out.count("\n") == 2
    assert err == "muser: no such character\n" * 2


def test_a_file_without_a_template_is_told_in_the_words_of_the_command_line(capsys, monkeypatch):
    monkeypatch.setattr("muser.text.tokenizer.read_templates", lambda metadata: {})
    assert converse(monkeypatch, "Hi") == 1
    out, err = capsys.readouterr()
    assert out == "" and "no chat template" in err and "chat_template" not in err and err.count("\n") == 1
