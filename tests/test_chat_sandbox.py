"""The counting environment renders what jinja2 renders: random templates, with and without it."""

from __future__ import annotations

import json
import warnings

import jinja2
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from muser.chat.template import ChatTemplate
from muser.errors import TemplateError

DATA = {
    "n": 3, "f": 2.5, "none": None, "yes": True, "s": " a<b> Text\nb ", "words": ["x", "yy", "x", ""],
    "rows": [{"role": "user", "k": 1}, {"role": "tool", "k": 0, "inner": {"a": [1, 2]}}], "d": {"b": 1, "a": "z"},
}  # fmt: skip

atoms = st.sampled_from(
    ["n", "f", "none", "yes", "s", "words", "rows", "d", "missing", "1", "'x'", "'<|eot|>'", "[1, 'a']", "(n, s)",
     "{'k': n, 'w': words}", "rows[1].inner.a", "rows[0]['role']", "d.a", "loop.index", "range(4)", "words[1:]", "s[::-1]", "s[1:-2]"]
)  # fmt: skip
UNARY = [
    "{0} | length", "{0} | upper", "{0} | trim", "{0} | tojson", "{0} | string", "{0} | list", "{0} | first", "{0} | last",
    "{0} | join('-')", "{0} | default('?')", "{0} | int", "{0} | sort", "{0} | unique | list", "{0} | reverse | list",
    "{0} | map('string') | list", "{0} | map(attribute='role') | list", "{0} | selectattr('k') | list", "{0} | reject('none') | list",
    "{0} | items | list", "{0} | dictsort", "{0} | indent(2)", "{0} | replace('x', 'yx')", "{0} | batch(2) | list", "{0} | escape",
    "{0} | groupby('role') | list", "{0} | sum", "{0} | round(1)", "{0} | title", "{0} | capitalize", "{0} | max", "{0} | abs",
    "{0} is defined", "{0} is string", "{0} is none", "{0} is mapping", "{0} is iterable", "{0} is number", "{0} is divisibleby 2",
    "not {0}", "-{0}", "{0}.strip()", "{0}.split()", "{0}.items() | list", "{0}.get('k')", "{0}.upper().lower()", "{0}.startswith('x')",
    "{0}.count('x')", "', '.join({0})", "{0}.replace('a', 'b')", "({0},)", "[{0}]", "dict(z={0})", "'%s' % {0}", "'{{}}'.format({0})",
    "m({0})", "namespace(v={0}).v", "{0}[0]", "{0}['role']", "{0}[:2]", "{0}[1]", "{0} | tojson(indent=1)",
]  # fmt: skip
BINARY = [
    "{0} + {1}", "{0} ~ {1}", "{0} == {1}", "{0} != {1}", "{0} < {1}", "{0} in {1}", "{0} not in {1}", "{0} and {1}", "{0} or {1}",
    "{0} * {1}", "{0} - {1}", "{0} / {1}", "{0} // {1}", "{0} % {1}", "{0} if {1} else n", "1 < {0} <= {1}", "{0} is eq {1}",
    "{0} is in {1}", "m({0}, {1})", "[{0}, {1}] | max", "{0} | default({1})", "{0}.join({1})",
]  # fmt: skip


def grow(inner):
    unary = st.tuples(st.sampled_from(UNARY), inner).map(lambda x: "(" + x[0].format(x[1]) + ")")
    binary = st.tuples(st.sampled_from(BINARY), inner, inner).map(lambda x: "(" + x[0].format(x[1], x[2]) + ")")
    return unary | binary


expressions = st.recursive(atoms, grow, max_leaves=5)
STATEMENTS = [
    "{{{{ {0} }}}}", "a {{{{- {0} -}}}} b", "{{% if {0} %}}yes{{% elif {1} %}}perhaps{{% else %}}no{{% endif %}}",
    "{{% set v = {0} %}}{{{{ v }}}}", "{{% for x in {0} %}}{{{{ loop.index0 }}}}{{{{ x }}}}{{% else %}}none{{% endfor %}}",
    "{{% for x in {0} if x %}}{{{{ loop.last }}}}{{% endfor %}}", "{{% for x in words %}}{{% if {0} %}}{{% continue %}}{{% endif %}}{{{{ {1} }}}}{{% endfor %}}",
    "{{% set v %}}<{{{{ {0} }}}}>{{% endset %}}{{{{ v | length }}}}{{{{ v }}}}", "{{% for k, v in d.items() %}}{{{{ k ~ ({0}) }}}}{{% endfor %}}",
    "{{% call m({0}) %}}in{{% endcall %}}", "{{% filter upper %}}{{{{ {0} }}}}{{% endfilter %}}", "{{% with q = {0} %}}{{{{ q }}}}{{% endwith %}}",
    "{{% set ns = namespace(c=0) %}}{{% for x in words %}}{{% set ns.c = ns.c + loop.index %}}{{% endfor %}}{{{{ ns.c }}}}{{{{ {0} }}}}",
    "{{% for x in rows recursive %}}{{{{ x.k }}}}{{% if x.inner %}}{{{{ loop([x.inner]) }}}}{{% endif %}}{{% endfor %}}\n  {{% if n %}}\n  t\n  {{% endif %}}\n",
]  # fmt: skip
statements = st.tuples(st.sampled_from(STATEMENTS), expressions, expressions).map(lambda x: x[0].format(x[1], x[2]))
MACRO = "{% macro m(a, b='B') %}[{{ a }}|{{ b }}{% if caller %}{{ caller() }}{% endif %}]{% endmacro %}"


def plainly(source: str) -> str | None:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jinja2 warns of odd code on stderr
            return environment.from_string(source).render(json.loads(json.dumps(DATA)))
    except Exception:  # whatever a template can do wrong
        return None


@settings(max_examples=120, deadline=None)
@given(st.lists(statements, min_size=1, max_size=3).map(lambda parts: MACRO + "".join(parts)))
def test_random_templates_render_as_jinja_renders_them(source):
    expected = plainly(source)
    template = ChatTemplate(source, lambda text: iter([text] if text else []), str)  # no control tokens
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # muser writes nothing to stderr
            text = template.render(json.loads(json.dumps(DATA)), {}).text
    except TemplateError as error:
        assert expected is None or "adds numbers only" in str(error), error
    else:
        if expected is not None and " object at 0x" in expected:
            return
        assert text == expected


def test_filters_that_are_left_out_are_named():
    for name in sorted(set(jinja2.Environment().filters) - {"tojson"}):
        try:
            ChatTemplate("{{ 'a' | " + name + " }}", lambda text: iter([text]), str).render({}, {})
        except TemplateError as error:
            if "No filter" in str(error):
                assert name in ("filesizeformat", "pprint", "random", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr")
