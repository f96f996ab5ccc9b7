"""Cases of group B of ../shared/cases: learned and given templates, and that nothing beside a value is touched."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
from shared_case import Case

from kvtools import Normalizer
from kvtools.fields import Learned, SectionSample, grouped, learn_group
from kvtools.fields.catalogue import Catalogue
from kvtools.normalize.hoist import Moves
from kvtools.normalize.jinja_files import logged_source
from kvtools.normalize.manifest import TemplateFile, template_name


def learned(case: Case) -> Learned:
    """Return the one template of the case's prompts."""
    sample = SectionSample()
    for request in case.requests:
        sample.offer("prompt", request["prompt"], None)
    (group,) = grouped(list(sample.texts.values()))
    (one,) = learn_group(group, Catalogue.bundled())
    return one


def as_in_the_case(one: Learned) -> str:
    """Return the template in the case's writing: values are {{f1}}, {{f2}}, … in the order of the text."""
    gaps = one.template.gaps
    numbers = {name: f"{{{{f{n}}}}}" for n, name in enumerate(dict.fromkeys(gap.name for gap in gaps), 1)}
    return one.template.render([numbers[gap.name] for gap in gaps])


def values_by_text(one: Learned) -> dict[str, tuple[str, ...]]:
    return {text.text: values for text, values in zip(one.texts, one.values, strict=True)}


def normalizer_of(one: Learned) -> Normalizer:
    moves = Moves(one.template, tuple(range(len(one.template.gaps))))
    return Normalizer([TemplateFile(template_name(one.template), moves)])


def test_030_the_value_alone_is_replaced_and_in_its_role_alone(shared: Path, tmp_path: Path) -> None:
    case = Case.load(shared / "cases", "030")
    source = case.expected[
        "r1_system"
    ]  # the right answer is the template: a role, an anchor, one placeholder
    (tmp_path / "client.j2").write_text("{# role: system #}\n" + source)
    normalizer = Normalizer.load(tmp_path)
    first, second = (request["messages"] for request in case.requests)
    sent, values = normalizer.normalize(first)
    head, _, block = sent[0]["content"].partition("\n\n")
    assert head.replace("[nonce]", "{{nonce}}") == source
    assert block == "[nonce]: 36ee5"
    assert sent[1:] == first[1:]
    assert normalizer.restore(sent, values) == first
    assert case.expected["r2"] == "unchanged"
    assert normalizer.normalize(second) == (second, [])


def test_039_one_value_is_one_variable_and_two_are_two(shared: Path) -> None:
    case = Case.load(shared / "cases", "039")
    one = learned(case)
    names = [gap.name for gap in one.template.gaps]
    assert len(set(names)) == case.expected["variables"] == 2
    assert (names.count(names[0]) == 2) is case.expected["first_used_twice"] is True
    source = logged_source(one.template)
    normalizer = normalizer_of(one)
    for request in case.requests:
        prompt = request["prompt"]
        assert values_by_text(one)[prompt] == tuple(
            re.findall(r"[Oo]rder (\w+)|again (\w+)", prompt)[n][n // 2] for n in range(3)
        )
        values = dict(zip(names, values_by_text(one)[prompt], strict=True))
        assert jinja2.Environment().from_string(source).render(values) == prompt  # noqa: S701 - as a user would
        sent, kept = normalizer.prompt(prompt)
        assert sent != prompt
        assert "Literal {{id_1}} stays." in sent
        assert normalizer.restore_prompt(sent, kept) == prompt
    assert case.expected["round_trip"] is True


def test_041_a_value_is_replaced_where_it_varies_alone(shared: Path) -> None:
    case = Case.load(shared / "cases", "041")
    one = learned(case)
    assert as_in_the_case(one) == case.expected["template"]
    found = values_by_text(one)
    assert [found[request["prompt"]] for request in case.requests] == [(v,) for v in case.expected["values"]]
    (name,) = (gap.name for gap in one.template.gaps)
    sent, kept = normalizer_of(one).prompt(case.requests[0]["prompt"])
    assert sent == f"ticket [{name}]: room 142, year 1942, code 42\n\n[{name}]: 42"
    assert normalizer_of(one).restore_prompt(sent, kept) == case.requests[0]["prompt"]


def test_045_values_of_several_words_are_one_value(shared: Path) -> None:
    case = Case.load(shared / "cases", "045")
    one = learned(case)  # one template of all requests
    assert case.expected["templates"] == 1
    assert len(one.texts) == len(case.requests)
    assert as_in_the_case(one) == case.expected["template"]
    found = values_by_text(one)
    assert [found[request["prompt"]][0] for request in case.requests] == [
        "Ada",
        "Ada Example",
        "Dr Ada B Example",
    ]
