"""The awkward strings on which muser's tokenizers are compared with other implementations.

``make_tokenizer_corpus.py`` writes them, with the other implementations' ids, to tests/data/text/.
"""

from __future__ import annotations

import random
import unicodedata

# fmt: off
SPACES = [" " * n for n in (1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 64)]
SPACES += [" " * n + "x" for n in (1, 2, 3, 4, 7, 30, 31, 32)] + ["x" + " " * n for n in (1, 2, 3, 31, 32)]
SPACES += [
    "a b", "a  b", "a   b", "  a  b  ", "\ta\t\tb\t", " \t a", "a \tb", "\u00a0a\u00a0\u00a0b", "a\u3000b",
]
SPACES += [
    "a\u2003b", "a\u200bb", "a\u2028b", "\u2009x", "a\x85b", "a\x1cb", "\ufeffa", "a\ufeffb", "a\u00adb",
]
SPACES += [" 1", "  1", " !", "  !", " é", "  é", " \u0301", "a \u0301"]

NEWLINES = ["\n" * n for n in (1, 2, 3, 4, 5, 8, 30, 31, 32, 40)]
NEWLINES += [
    "a\nb", "a\n\nb", "a\n\n\nb", "a\r\nb", "a\r\n\r\nb", "\r", "\r\r", "a\rb", "\n a", "\n  a", " \n",
    "  \n",
]
NEWLINES += [
    " \n ", "a \n b", "a  \n  b", "!\n", "!\n\n", "!\r\n", "! \n", ".\n\n\nA", "\t\n\t", "\n\t\n",
    "a\n \nb",
]
NEWLINES += [
    "\x0b", "a\x0bb", "a\x0cb", "1\n2\n3", "x/\n", "x//\r\n/", "\n\n  \n\n  a", "end.\n\n\n   Next",
]

DIGITS = [
    "0", "00", "12", "123", "1234", "12345", "123456789", "1" * 20, "3.14159", "1,000,000.00", "1e-10",
    "0x1F",
]
DIGITS += [
    "a1", "1a", "a1b2c3", " 12 345", "2024-11-30T12:34:56Z", "192.168.0.1", "+1 (555) 123-4567", "½⅓¾",
    "①②③",
]
DIGITS += [
    "٠١٢٣٤٥", "०१२३", "１２３", "Ⅷ", "x²+y³", "10⁻⁹", "5%", "$5.00", "1st 2nd 3rd", "100km", "1\u0301", "𝟏𝟐𝟑",
]

CONTRACTIONS = [
    "don't", "DON'T", "I'm", "I'M", "we'll", "we'LL", "they've", "he'd", "it's", "IT'S", "you're",
    "YOU'RE",
]
CONTRACTIONS += [
    "'s", "'S", "'t", " 's", "'tis", "'twas", "rock 'n' roll", "d'accord", "l'école", "O'Reilly",
    "y'all've",
]
CONTRACTIONS += [
    "it’s", "don’t", "a's's", "a'''s", "'re'll've", "x'sy", "'ſ", "it'ſ", "'K", "a'b", "1's", "!'s", "é's",
]
CONTRACTIONS += ["'Re", "'vE", "'lL", "can't've", "s'", "'s\n", "'s 's"]

CASES = [
    "HelloWorld", "helloWORLD", "HELLOworld", "camelCaseString", "PascalCaseString", "SCREAMING_SNAKE",
    "snake_case",
]
CASES += [
    "XMLHttpRequest", "iPhone", "McDonald", "aB", "Ab", "ABc", "abC", "ÀBC", "Àbc", "éT", "ÉT", "éÀ", "Ǆ",
    "ǅ", "ǆ",
]
CASES += [
    "ßẞ", "İI", "ıi", "ΑΒΓαβγ", "αΒγ", "АБВабв", "аБв", "ʰa", "aʰB", "日本Go", "Go日本", "aªbº",
    "STRASSE straße",
]

SCRIPTS = [
    "Ça va? Très bien, où êtes-vous?", "Größe, Übermut, weiß", "El niño comió piñas. ¿Qué?",
    "Zażółć gęślą jaźń",
    "Příliš žluťoučký kůň", "Þetta er íslenska", "Tiếng Việt có dấu", "Türkçe ığüşöç", "Ελληνικά γράμματα",
    "Привет, как дела?", "Українська мова ґ", "שלום עולם", "שָׁלוֹם", "مرحبا بالعالم",
    "السَّلَامُ عَلَيْكُمْ",
    "فارسی می‌خواهم", "नमस्ते दुनिया", "हिन्दी में क्षत्रिय", "বাংলা ভাষা", "தமிழ் மொழி", "తెలుగు",
    "ಕನ್ನಡ", "മലയാളം",
    "ไทยไม่มีช่องว่าง", "ພາສາລາວ", "မြန်မာဘာသာ", "ភាសាខ្មែរ", "བོད་ཡིག", "ქართული ენა", "Հայերեն", "አማርኛ",
    "中文字符測試",
    "你好，世界！", "日本語のテキスト、カタカナ。", "ｶﾀｶﾅ ﾊﾝｶｸ", "한국어 텍스트", "한국어", "ᠮᠣᠩᠭᠣᠯ", "ᏣᎳᎩ", "ⵜⴰⵎⴰⵣⵉⵖⵜ", "𐌲𐌿𐍄𐌹𐍃𐌺", "𓀀𓁐",
    "中文English混合123テスト", "русскийenglishमिश्रित", "a中b文c", "中 文", "。。。", "「引用」", "，，", "全角　空白", "〇一二三",
]

EMOJI = [
    "😀", "😀😀", " 😀", "a😀b", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣", "❤️", "❤", "☺︎", "🧑🏿‍🚀", "👩‍❤️‍💋‍👨",
    "😀\u200d", "\u200d😀", "\ufe0f",
    "🫠🫡", "🤷‍♂️ idk", "🎉!!!", "♥♦♣♠", "→ ← ↑ ↓", "✓ ✗", "★☆", "𝓗𝓮𝓵𝓵𝓸", "𝕳", "Ｈｅｌｌｏ", "ⓗⓔⓛⓛⓞ", "🅷",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
]

MARKS = [
    "e\u0301", "E\u0301a", "a\u0308\u0304b", "\u0301", "\u0301\u0301", "x\u0301\u0302\u0303\u0304",
    "A\u030aB", "n\u0303o", " \u0301a",
    "!\u0301", "1\u20dd", "\u0915\u094d\u0937", "\u1112\u1161\u11ab", "e\u0301\u0301e", "Z̴̢͝a̷̛l̸̡g̵o",
    "a\u0301B\u0301c", "\u0301's", "q\u0307\u0323",
    "q\u0323\u0307", "\u1e9b\u0323", "ﬁﬂ", "Å", "A\u030a", "\u212b", "ſt", "\u0344", "\u0308\u0301",
    "é e\u0301 é", "ก\u0e31\u0e49", "ё е\u0308",
]
MARKS += [
    unicodedata.normalize(form, text)
    for form in ("NFD", "NFKC")
    for text in (SCRIPTS[0], SCRIPTS[6], SCRIPTS[35])
]

CODE = [
    "for (int i=0;i<10;++i){x+=i;}", "def f(x):\n    return x**2\n", "def f():\n\treturn\t1",
    "if x == y: pass  # note",
    "print('hello')", 'print("hello\\n")', "a->b", "a=>b", "x != y && z || !w",
    "std::vector<std::pair<int, int>> v;", "#include <stdio.h>\n",
    "SELECT * FROM t WHERE a='b';", "<html><body><h1>Hi</h1></body></html>",
    "<table><tr><td>1</td></tr></table>", "<br/>", "</s>", "<b>bold</b>",
    "<s>strike</s>", '{"a": [1, 2, {"b": null}], "c": "d"}', "[[1,2],[3,4]]", "/usr/local/bin/python3",
    "C:\\Users\\name", "https://example.com/a?b=c&d=e#f",
    "user@example.com", "$HOME/.bashrc", "`code` and ```\nblock\n```", "# Title\n\n* item\n* item\n",
    "| a | b |\n|---|---|\n", "\\frac{a}{b}", "λx.x",
    "    indented\n        more\n", "\t\ttabs\n", "a_b_c__d", "__init__", "--flag=value", "...", "....",
    ".....", "!!!???", "???", "===", "======", "-----",
    "/* c */ // d", "(((())))", "a.b.c()", "x[0][1]", "@decorator", "%s %d %5.2f", "&amp;&lt;", "~~~",
    "^_^", "¯\\_(ツ)_/¯", "'''", '"""', "\\u0041", "''", "a''b",
]

SPECIALS = [
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_start|>", "<|im_end|>",
    "a<|im_end|>b", " <|im_end|> ", "<|im_end|><|im_end|>",
    "<|endoftext|>", "text<|endoftext|>text", "<|im_start|><|im_en|>", "<|im_end", "|im_end|>",
    "< |im_end|>", "<|IM_END|>", "<<|im_end|>>", "<repo_name>x<file_sep>y",
    "<empty_output>", "<jupyter_code>1+1", "<bos>", "<eos>", "a<eos>b", "<pad>", "<unk>", "<mask>",
    "<unused0>", "<unused99>", "<unused6241>", "<bos><bos>", "<bos>Hi",
    "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>", "[multimodal]",
    "<0x0A>", "<0xFF>", "a<0x41>b", "<s>", "</s>", "<s>G", "<strong><em>x</em></strong>",
    "<|start|>user<|message|>hi<|eot|>", "<|start|>", "<|message|>", "a<|start|>b",
    "<|begin_of_text|>Hello", "<|end_of_text|>", "<|eom|>", "<|eot|>", "<|finetune_right_pad|>",
    "<|start|>assistant to=user<|message|>ok<|eot|>", "<|reserved_special_token_2|>", "[INST] x [/INST]",
    "<<SYS>>", "<think>hm</think>", "<tool_call>{}</tool_call>",
]

CONTROLS = ["a" + chr(code) + "b" for code in (*range(1, 9), *range(0x0E, 0x20), 0x7F, 0x80, 0x9F)]
CONTROLS += [
    "\x00", "a\x00b", "\x00\x00", "\x1b[31mred\x1b[0m", "\x02\x02", "\u202eabc\u202c", "\u2066x\u2069",
    "\ufffd", "a\ufffdb", "\ufffd\ufffd", "\ufffe", "\uffff",
]
CONTROLS += [
    "\U0010ffff", "\U000e0001", "\ue000", "\U000f0000", "\U00040000", "\U00090000", "\ud7ff", "\U00010000",
    "\u2581", "a\u2581b", "\u2581\u2581", "Ġ", "ĠHello", "Ċ", "â", "ðŁĺĢ",
]
CONTROLS += ["\u1c89\u1c8a", "\ua7cb", "\U000105c0"]  # letters since Unicode 16

LONG = [
    "a" * 100, "a" * 1000, "ab" * 500, "abc" * 333, "A" * 300, "!" * 300, "<" * 100, "-" * 200, "=" * 80,
    "é" * 100, "中" * 200, "😀" * 50, "1" * 300, "aA" * 200,
]
LONG += [
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
]
LONG += [
    "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogoch", "x" * 31 + " " + "y" * 33, "the " * 100,
    " the" * 50, "hello" * 60, "ha" * 77, "lololololol" * 9, "e\u0301" * 60,
]
LONG += [
    "aaaaa", "aaaaaaa", "ababa", "abababab", "banananana", "mississippi", "eeeee", "ooooooo", "nnnnn",
    "tttt", "zzzzzzzzz", "hahahahaha", "------->", "*****", "........",
]

PROSE = [
    "Once upon a time, there was a little girl named Lily. She loved to play outside!",
    "The quick brown fox jumps over the lazy dog.", "THE QUICK BROWN FOX",
    "Mr. Smith's $3.50 (approx.) isn't 100% right...",
    "“Curly quotes” — and dashes – here…", "e.g., i.e., etc.", "Hello, world! How are you?",
    "What?! No way!!", "A.B.C. u.s.a.", "end", " leading", "trailing ", "(parenthesis) [bracket] {brace}",
    "Dr. O’Neill’s 3rd re-run; see fig. 2a/2b, p. 45–47.", "semi;colon:colon,comma.dot",
    "well-known state-of-the-art", "re-\nhyphen-\nated", "word\u00adbreak", "a/b/c", "50/50", "24/7",
    "C++ C# F#",
]

# fmt: on


def mixed(count: int) -> list[str]:
    """Random joins of the others, which bring unlike neighbours together."""
    draw = random.Random(20)
    parts = [text for group in GROUPS for text in group if 0 < len(text) < 40]
    return ["".join(draw.choice(parts) for _ in range(draw.randint(2, 5))) for _ in range(count)]


GROUPS = [
    SPACES,
    NEWLINES,
    DIGITS,
    CONTRACTIONS,
    CASES,
    SCRIPTS,
    EMOJI,
    MARKS,
    CODE,
    SPECIALS,
    CONTROLS,
    LONG,
    PROSE,
]


def corpus() -> list[str]:
    texts = ["", *(text for group in GROUPS for text in group)]
    return list(dict.fromkeys([*texts, *mixed(160)]))


if __name__ == "__main__":
    print(len(corpus()), sum(map(len, corpus())))
