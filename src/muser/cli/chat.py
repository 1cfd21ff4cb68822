"""``muser chat``: a conversation, one line a message. Ctrl-C stops an answer, Ctrl-D ends the conversation, and
/reset begins a new one. Reasoning stands in (parentheses).
"""

from __future__ import annotations

import argparse
import io
import sys
from typing import TYPE_CHECKING, Any

from muser.cli.options import A_DAY, add_options, load, sampling
from muser.cli.output import emit, emit_stats, flush, stdout
from muser.errors import ContextFullError, ParameterError, TemplateError

if TYPE_CHECKING:
    from muser import Model, SamplingParams


def add_parser(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subcommands.add_parser("chat", help="talk with a model", description=__doc__)
    parser.add_argument("--system", help="what the model is told beforehand")
    parser.add_argument("--reasoning", choices=("low", "medium", "high", "xhigh"), help="for models with such levels")
    parser.add_argument("--thinking-budget", type=int, metavar="N", help="tokens of reasoning at most")
    add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    stdout()  # before the work, not after it
    params = sampling(arguments)
    options = {"reasoning": arguments.reasoning, "thinking_budget": arguments.thinking_budget}
    beginning = [] if arguments.system is None else [{"role": "system", "content": arguments.system}]
    messages = list(beginning)
    with load(arguments) as model:
        if "default" not in model.tokenizer.chat_templates:
            raise TemplateError("the model file has no chat template; muser generate continues a text without one")
        # What the model refuses of the options, it refuses now and not after the first line.
        model._chat_generation(params, [*beginning, {"role": "user", "content": "?"}], **options)
        while (line := read_line()) is not None:
            if line.strip() == "/reset":
                messages = list(beginning)
            elif line.strip():
                messages = answered(model, [*messages, {"role": "user", "content": line}], params, options, arguments.stats)


def read_line() -> str | None:
    """The next message; None at the end of the input. Asks for it where somebody can see that."""
    if sys.stdin is None:
        raise ParameterError("stdin is closed", parameter="stdin", value=None)
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors == "strict":
        sys.stdin.reconfigure(errors="surrogateescape")  # else a bad line takes those after it along
    while True:
        try:
            line = input("> " if sys.stdin.isatty() and stdout().isatty() else "")
            line.encode()
            return line
        except EOFError:
            return None
        except UnicodeEncodeError:
            emit(f"muser: a line that is not {sys.stdin.encoding} is left out", sys.stderr)
        except UnicodeError as error:
            raise ParameterError(f"stdin cannot be read: {error}", parameter="stdin", value=None) from None


def answered(
    model: Model, messages: list[Any], params: SamplingParams, options: dict[str, Any], stats: bool
) -> list[Any]:
    """Writes the answer as it comes; returns the conversation with it, or without a question that is too long or that
    the vocabulary cannot spell."""
    stream = None
    thinking = False
    try:
        stream = model.chat_stream(messages, params, reader_grace=A_DAY, **options)
        for chunk in stream:
            if chunk.reasoning and not thinking:
                emit("(", end="")
            if thinking and (chunk.text or chunk.finish_reason):
                emit(")\n", end="")
            thinking = bool(chunk.reasoning) or (thinking and not chunk.text and not chunk.finish_reason)
            emit(chunk.reasoning + chunk.text, end="")
            flush()
    except (ContextFullError, ParameterError) as error:
        unspellable = isinstance(error, ParameterError)
        if stream is not None or (unspellable and not _of_the_last(error, messages)):
            raise
        again = not unspellable and any(message["role"] == "assistant" for message in messages)
        emit(f"muser: {error}" + ("; /reset begins a new conversation" if again else ""), sys.stderr)
        return messages[:-1]
    except KeyboardInterrupt:
        emit(")" if thinking else "", end="")
    finally:
        if stream is not None:
            stream.close()
    emit("")
    flush()
    done = None if stream is None else stream.completion
    if done is None:
        return messages[:-1]
    if stats:
        emit_stats(done)
    return [*messages, done.message]


def _of_the_last(error: Exception, messages: list[Any]) -> bool:
    return isinstance(error, ParameterError) and (error.parameter, error.index) == ("messages", len(messages) - 1)
