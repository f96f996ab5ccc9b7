"""Folders of templates: what is written comes back, what is not ours is left alone, what is damaged is named."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import jinja2
import pytest

from kvtools.errors import InputError, UsageError
from kvtools.fields.catalogue import Kind
from kvtools.fields.template import Gap, SectionTemplate
from kvtools.normalize.given_templates import read_templates
from kvtools.normalize.hoist import Moves
from kvtools.normalize.manifest import (
    TemplateFile,
    ValuesFile,
    template_name,
    templates_written,
    write_templates,
)
from kvtools.normalize.rewriting import Rewriting

TIME = Gap("time", Kind("time", "minute"), "field", 0)
USER = Gap("user_id", Kind("user_id"), "field", 1)
TEXT = Gap("text", Kind("text"), "text", 2)
SHOP = SectionTemplate("system", ("Now: ", "\r\nUser ", " at ", " asks: ", "\n"), (TIME, USER, TIME, TEXT))
FLAT = SectionTemplate("prompt", ("Hello ", "."), (USER,))
ENTRIES = [
    TemplateFile(template_name(SHOP), Moves(SHOP, (0, 1, 2)), "shop", 4_981, 81, 0.741, frozenset({"time"})),
    TemplateFile(template_name(FLAT), Moves(FLAT, (0,))),
]
LOGGED = "Now: 10:41\r\nUser u_1 at 10:41 asks: where {{is}} it?\n\n"


def held(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def without_runs(template: SectionTemplate) -> tuple[object, ...]:
    return template.role, template.literals, [(gap.name, gap.kind, gap.shape) for gap in template.gaps]


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "templates"
    write_templates(folder, ENTRIES)
    found = read_templates(folder)
    for one, entry in zip(found, ENTRIES, strict=True):
        assert without_runs(one.moves.template) == without_runs(entry.moves.template)
        assert one.moves.gaps == entry.moves.gaps
        for name in ("name", "route", "requests", "stable_tokens", "hit_rate_if_moved", "one_line"):
            assert getattr(one, name) == getattr(entry, name)
    assert found[0].moves.apply(LOGGED) == ENTRIES[0].moves.apply(LOGGED) is not None
    first = held(folder)
    write_templates(folder, ENTRIES)
    assert held(folder) == first
    assert [path.name for path in folder.parent.iterdir()] == ["templates"]


def test_the_files_of_a_set(tmp_path: Path) -> None:
    write_templates(tmp_path / "t", ENTRIES)
    shop, flat = (entry.name for entry in ENTRIES)
    assert shop.startswith("system-")
    assert flat.startswith("prompt-")
    assert sorted(held(tmp_path / "t")) == sorted(
        ["manifest.json", f"{shop}.j2", f"{flat}.j2", f"logged/{shop}.j2", f"logged/{flat}.j2"]
    )
    manifest = json.loads((tmp_path / "t/manifest.json").read_text())
    assert manifest["kvtools_templates"] == 1
    entry = manifest["templates"][0]
    fields = entry.pop("fields")
    assert entry == {
        "file": f"{shop}.j2",
        "logged": f"logged/{shop}.j2",
        "role": "system",
        "route": "shop",
        "requests": 4981,
        "stable_tokens": 81,
        "hit_rate_if_moved": 0.741,
    }
    assert [field["name"] for field in fields] == ["time", "user_id", "time", "text"]
    assert fields[0] == {
        "name": "time",
        "kind": "time",
        "granularity": "minute",
        "shape": "field",
        "placeholder": "[time]",
        "moved": True,
        "one_line": True,
    }
    assert not fields[3]["moved"]


def test_the_values_render_to_what_was_logged(tmp_path: Path) -> None:
    rewriting = Rewriting([entry.moves for entry in ENTRIES])
    with templates_written(tmp_path / "t", ENTRIES) as values:
        values.section(7, 0, rewriting.rewritten("system", LOGGED))
        values.section(8, None, rewriting.rewritten("prompt", "Hello u_2."))
        values.section(9, 0, rewriting.rewritten("system", "another text"))
    lines = [json.loads(line) for line in (tmp_path / "t/values.jsonl").read_text().splitlines()]
    assert [(line["line"], line["message"], line["template"]) for line in lines] == [
        (7, 0, ENTRIES[0].name),
        (8, None, ENTRIES[1].name),
    ]
    assert lines[0]["values"] == {"time": "10:41", "user_id": "u_1", "text": "where {{is}} it?\n"}
    folder = jinja2.Environment(loader=jinja2.FileSystemLoader(tmp_path / "t"))  # noqa: S701 - as a user would
    for line, logged, role in zip(lines, (LOGGED, "Hello u_2."), ("system", "prompt"), strict=True):
        assert folder.get_template(f"logged/{line['template']}.j2").render(line["values"]) == logged
        served = folder.get_template(f"{line['template']}.j2").render(line["values"])
        assert served == rewriting.text(role, logged) != logged


def test_given_templates_keep_their_names_in_the_values() -> None:
    file = BytesIO()
    ValuesFile(file, {FLAT: "hello/world"}).section(
        1, None, Rewriting([Moves(FLAT, (0,))]).rewritten("prompt", "Hello 3.")
    )
    assert json.loads(file.getvalue())["template"] == "hello/world"


def test_an_older_set_goes_as_a_whole(tmp_path: Path) -> None:
    with templates_written(tmp_path / "t", ENTRIES):
        pass
    assert (tmp_path / "t/values.jsonl").is_file()
    write_templates(tmp_path / "t", ENTRIES[1:])
    assert sorted(held(tmp_path / "t")) == sorted(
        ["manifest.json", f"{ENTRIES[1].name}.j2", f"logged/{ENTRIES[1].name}.j2"]
    )
    (tmp_path / "link").symlink_to("t")
    write_templates(tmp_path / "link", ENTRIES)
    assert (tmp_path / "link").is_symlink()
    assert len(read_templates(tmp_path / "t")) == 2


def test_an_error_leaves_all_as_it_was(tmp_path: Path) -> None:
    write_templates(tmp_path / "t", ENTRIES)
    before = held(tmp_path)
    with pytest.raises(RuntimeError), templates_written(tmp_path / "t", ENTRIES[1:]):
        raise RuntimeError
    assert held(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("ours", [False, True], ids=["none", "ours"])
def test_a_folder_with_other_files_is_refused(tmp_path: Path, ours: bool) -> None:
    if ours:
        write_templates(tmp_path / "t", ENTRIES)
    (tmp_path / "t/logged").mkdir(parents=True, exist_ok=True)
    (tmp_path / "t/logged/mine.j2").write_text("keep me")
    with pytest.raises(UsageError) as told:
        write_templates(tmp_path / "t", ENTRIES)
    assert str(told.value) == (
        f"{tmp_path}/t: holds logged/mine.j2, which kvtools did not write; name a new or empty folder."
    )
    assert (tmp_path / "t/logged/mine.j2").read_text() == "keep me"


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("keep me")
    with pytest.raises(UsageError, match="is a file"):
        write_templates(tmp_path / "t", ENTRIES)
    with pytest.raises(InputError, match="cannot be written"):
        write_templates(tmp_path / "t/below", ENTRIES)
    with pytest.raises(InputError, match="no such folder"):
        read_templates(tmp_path / "t")


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder


def test_templates_written_by_hand(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "b.jinja": "{# role: user #}\nOrder {{ order_id }} is late: {{ question }}\n",
            "a/x.j2": "Now: {{ time }}\r\nHelp {{ text_of_user }}.",
            "c.jinja2": "{#- role:prompt -#}Greet {{ name }} and {{ name }}.",
            ".hidden/d.j2": "{{ broken",
            "notes.txt": "{{ broken",
        },
    )
    found = {one.name: one.moves for one in read_templates(tmp_path)}
    assert list(found) == ["a/x", "b", "c"]
    assert [found[name].template.role for name in found] == ["system", "user", "prompt"]
    assert found["a/x"].template.literals == ("Now: ", "\nHelp ", ".")
    assert [found[name].gaps for name in found] == [(0,), (0,), (0, 1)]
    assert found["b"].apply("Order 7 is late: why?") == "Order [order_id] is late: why?\n\n[order_id]: 7"
    assert found["c"].apply("Greet Ada and Ada.") == "Greet [name] and [name].\n\n[name]: Ada"
    assert found["c"].apply("Greet Ada and Ben.") is None


REFUSED = {
    "two\n{{ a.b }}": ":2: an attribute can be rendered but not matched",
    "{# role: user #}\n{{ a | upper }}": ":2: a filter can be",
    "{# role: boss #}\nx {{ a }}": ":1: the role 'boss' is none of system, user, tool, prompt;",
    "{{ a }}": ":1: no stable text, so every prompt would fit;",
    "x\n\n{{ a }}{{ b }}": ":3: a and b stand side by side",
}


@pytest.mark.parametrize("source", REFUSED, ids=range(len(REFUSED)))
def test_a_faulty_template_is_named_with_its_line(tmp_path: Path, source: str) -> None:
    with pytest.raises(InputError) as told:
        read_templates(put(tmp_path, {"good.j2": "x {{ y }}", "t.j2": source}))
    assert str(told.value).startswith(f"{tmp_path}/t.j2{REFUSED[source]}")


def test_hostile_templates_are_read_and_never_run(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("attack at dawn")
    hostile = {
        "{{ ''.__class__.__mro__[1].__subclasses__() }}": "a call",
        "{{ ''.__class__.__mro__ }}": "an attribute",
        "{% for i in range(10**12) %}x{% endfor %}": "a loop",
        f"{{% include '{secret}' %}}": "an include",
        "{{ cycler.__init__.__globals__.os.mkdir('made') }}": "a call",
    }
    for number, (source, what) in enumerate(hostile.items()):
        folder = put(tmp_path / f"{number}", {"t.j2": f"stable\n{source}"})
        with pytest.raises(InputError) as told:
            read_templates(folder)
        assert str(told.value).startswith(f"{folder}/t.j2:2: {what} can be rendered")
        assert "dawn" not in str(told.value)
    assert not Path("made").exists()


def test_a_manifest_reaches_no_file_outside_of_its_folder(tmp_path: Path) -> None:
    write_templates(tmp_path / "t", ENTRIES[1:])
    (tmp_path / "secret.j2").write_text("stable {{ user_id }}.")
    path = tmp_path / "t/manifest.json"
    name = ENTRIES[1].name
    text = path.read_text()
    for key, other in ((f"logged/{name}.j2", "logged/../../secret.j2"), (f'"{name}.j2"', '"../secret.j2"')):
        path.write_text(text.replace(key, other))
        with pytest.raises(InputError):
            read_templates(tmp_path / "t")


DAMAGE = {
    '"kvtools_templates": 1': ('"kvtools_templates": 2', "version 2 of kvtools templates, not 1; learn them again."),
    '"role": "prompt"': ('"role": "boss"', "has another file, logged file or role than kvtools writes"),
    '"shape": "field"': ('"shape": "round"', "not a manifest of kvtools templates"),
    '"placeholder": "[user_id]"': ('"placeholder": "[me]"', "the placeholders of .* were changed"),
    '"moved": true,': ("", "not a manifest of kvtools templates"),
    '"name": "user_id"': ('"name": "id"', "its placeholders are not those of manifest.json"),
}  # fmt: skip


@pytest.mark.parametrize("old", DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_manifest_is_named(tmp_path: Path, old: str) -> None:
    write_templates(tmp_path, ENTRIES[1:])
    path = tmp_path / "manifest.json"
    assert old in path.read_text()
    new, sentence = DAMAGE[old]
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=sentence):
        read_templates(tmp_path)


def test_what_is_missing_strange_or_twice_there_is_named(tmp_path: Path) -> None:
    write_templates(tmp_path, ENTRIES[1:])
    (tmp_path / "mine.j2").write_text("Hello")
    with pytest.raises(
        InputError, match=r"mine\.j2: not in manifest\.json; move it to a folder of its own\."
    ):
        read_templates(tmp_path)
    (tmp_path / "mine.j2").unlink()
    (tmp_path / f"logged/{ENTRIES[1].name}.j2").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        read_templates(tmp_path)
    # Not ours: the templates beside it are written by hand.
    web = put(tmp_path / "web", {"manifest.json": '{"name": "a web app"}', "t.j2": "Hello {{ name }}"})
    assert [one.name for one in read_templates(web)] == ["t"]
    put(web, {"t.jinja": "Hello"})
    with pytest.raises(InputError, match="two templates have this name"):
        read_templates(web)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no template in it"):
        read_templates(tmp_path / "empty")
    (tmp_path / "empty/t.j2").write_bytes(b"x\n\xff")
    with pytest.raises(InputError, match=r"t\.j2:2: not UTF-8"):
        read_templates(tmp_path / "empty")


def test_a_name_that_is_no_file_is_a_fault_of_the_caller() -> None:
    for names in (["../x"], ["a", "a"]):
        with pytest.raises(ValueError, match="cannot name a template file"):
            write_templates(Path("never"), [TemplateFile(name, Moves(FLAT, (0,))) for name in names])
