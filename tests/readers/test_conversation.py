from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kvtools.readers import ReadOptions
from kvtools.readers.conversation import READER
from kvtools.readers.sources import expand, opened
from kvtools.table import SCHEMA, arrow_column, check


@dataclass(frozen=True, slots=True)
class Reading:
    """Per request the columns that are not NA, the rejects, and the number of records."""

    rows: list[dict[str, Any]]
    rejects: list[tuple[str, str, str]]
    records: int

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.rejects]

    def column(self, name: str) -> list[Any]:
        return [row.get(name) for row in self.rows]


Read: TypeAlias = Callable[..., Reading]

USER = {"role": "user", "content": "q1"}
FIRST = {"role": "assistant", "content": "a1"}
MORE = {"role": "user", "content": "q2"}
SECOND = {"role": "assistant", "content": "a2"}
TALK = [USER, FIRST, MORE, SECOND]


def reading_of(path: Path, **options: Any) -> tuple[Reading, list[int]]:
    """Read a file with the reader itself; also give the rows of each chunk."""
    rows: list[dict[str, Any]] = []
    rejects: list[tuple[str, str, str]] = []
    records = 0
    sizes = []
    (source,) = expand([str(path)])
    with opened(source) as file:
        for chunk in READER.read(file, source, ReadOptions(**options)):
            check(chunk.requests)
            assert chunk.records == len(chunk.requests) + len(chunk.rejects)
            columns = {name: arrow_column(chunk.requests, name).to_pylist() for name in SCHEMA.names}
            rows += [
                {name: values[row] for name, values in columns.items() if values[row] is not None}
                for row in range(len(chunk.requests))
            ]
            rejects += chunk.reject_rows()
            records += chunk.records
            sizes.append(len(chunk.requests))
    return Reading(rows, rejects, records), sizes


@pytest.fixture
def talks(tmp_path: Path) -> Read:
    """Read records (objects, text or bytes), one per line."""

    def read(*records: Any, **options: Any) -> Reading:
        path = tmp_path / "talks.jsonl"
        lines = [
            r if isinstance(r, bytes) else (r if isinstance(r, str) else json.dumps(r)).encode()
            for r in records
        ]
        path.write_bytes(b"\n".join(lines))
        return reading_of(path, **options)[0]

    return read


def test_each_answer_is_a_request_with_all_that_was_said_before(talks: Read) -> None:
    reading = talks("", {"dialogue_id": "d", "messages": TALK})
    rows = [{k: v for k, v in row.items() if k != "source"} for row in reading.rows]
    assert rows == [
        {"request_id": "d#1", "session_id": "d", "messages": '[{"role":"user","content":"q1"}]', "output_text": "a1"},
        {
            "request_id": "d#2",
            "session_id": "d",
            "messages": '[{"role":"user","content":"q1"},{"role":"assistant","content":"a1"},{"role":"user","content":"q2"}]',
            "output_text": "a2",
        },
    ]  # fmt: skip
    assert [row["source"].rpartition("/")[2] for row in reading.rows] == ["talks.jsonl:2", "talks.jsonl:2"]
    assert reading.records == 2


def test_a_question_without_answer_gives_no_request(talks: Read) -> None:
    reading = talks({"dialogue_id": "d", "messages": [*TALK, {"role": "user", "content": "bye"}]})
    assert reading.column("output_text") == ["a1", "a2"]


def test_an_answer_to_nothing_is_a_request_without_prompt(talks: Read) -> None:
    reading = talks(
        {
            "id": 7,
            "conversations": [
                {"from": "gpt", "value": "Hi"},
                {"from": "human", "value": "q"},
                {"from": "gpt", "value": "a"},
            ],
        }
    )
    assert reading.column("request_id") == ["7#1", "7#2"]
    assert reading.column("messages") == [
        None,
        '[{"role":"assistant","content":"Hi"},{"role":"user","content":"q"}]',
    ]


def test_tool_calls_are_answers_and_stay_in_the_history(talks: Read) -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "stock", "arguments": "{}"}}]
    traj = [
        {"role": "system", "content": "s"}, USER,
        {"content": None, "role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c", "name": "stock", "content": "3"},
        FIRST,
    ]  # fmt: skip
    reading = talks({"task_id": 0, "trial": 2, "reward": 1.0, "traj": traj})
    assert reading.column("request_id") == ["0/2#1", "0/2#2"]
    assert reading.column("session_id") == ["0/2", "0/2"]
    assert reading.column("output_text") == [None, "a1"]
    assert [json.loads(row["messages"]) for row in reading.rows] == [traj[:2], traj[:4]]


@pytest.mark.parametrize(
    ("senders", "roles"),
    [
        (["system", "human", "gpt"], ["system", "user"]),
        (["usr", "sys", "usr", "sys"], ["user", "assistant", "user"]),
        (["sys", "user", "assistant"], ["system", "user"]),
        (["Human", "ChatGPT", "human", "observation", "bot"], ["user", "assistant", "user", "tool"]),
    ],
)
@pytest.mark.parametrize(("who", "what"), [("from", "value"), ("role", "content")])
def test_names_of_the_two_sides(
    talks: Read, senders: list[str], roles: list[str], who: str, what: str
) -> None:
    last = talks({"id": "x", "conversations": [{who: s, what: "t"} for s in senders]}).rows[-1]
    assert [message["role"] for message in json.loads(last["messages"])] == roles


def test_a_role_of_its_own_stays_and_a_strange_sender_does_not(talks: Read) -> None:
    reading = talks(
        {"id": "a", "messages": [{"role": "critic", "content": "c"}, FIRST]},
        {
            "id": "b",
            "conversations": [{"from": "someone with a name", "value": "q"}, {"from": "gpt", "value": "a"}],
        },
    )
    assert json.loads(reading.rows[0]["messages"]) == [{"role": "critic", "content": "c"}]
    assert reading.reasons == ["bad_turn"]
    assert reading.rejects[0][2] == "turn 0 is from 'someone with', which is no role of a chat"


def test_notes_of_the_data_set_are_no_part_of_a_request(talks: Read) -> None:
    noted = [USER | {"dialog_act": [["Inform", "x"]], "user_state": {}}, FIRST | {"sys_state": {}}]
    assert talks({"dialogue_id": 1, "messages": noted}).column("messages") == [
        '[{"role":"user","content":"q1"}]'
    ]


def test_system_text_tools_model_and_route_of_the_record(talks: Read) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    rest = {"system": "s", "tools": json.dumps(tools), "model": "m", "app": "shop"}
    (row,) = talks(
        {"id": "a", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], **rest}
    ).rows
    assert row["messages"] == '[{"role":"system","content":"s"},{"role":"user","content":"q"}]'
    assert (json.loads(row["tools"]), row["namespace"], row["route"]) == (tools, "model=m", "shop")


def test_a_system_message_of_its_own_comes_before_that_of_the_record(talks: Read) -> None:
    own = {"role": "system", "content": "own"}
    (row,) = talks({"id": "a", "system": "other", "messages": [own, USER, FIRST]}).rows
    assert json.loads(row["messages"]) == [own, USER]


def test_a_record_without_id_names_no_session(talks: Read) -> None:
    (row,) = talks({"traj": [USER, FIRST]}).rows
    assert not {"request_id", "session_id", "arrival_us"} & set(row)


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"conversation_id": "c", "id": "i"}, "c"),
        ({"dialogue_id": 3, "id": "i"}, "3"),
        ({"session_id": "s", "task_id": 1}, "s"),
        ({"conversation_hash": "h"}, "h"),
        ({"conversation_id": None, "id": "i"}, "i"),
    ],
)
def test_names_of_the_conversation(talks: Read, record: dict[str, Any], name: str) -> None:
    assert talks(record | {"messages": [USER, FIRST]}).column("session_id") == [name]


def test_the_time_of_a_record_is_that_of_its_first_request_only(talks: Read) -> None:
    reading = talks({"id": "a", "timestamp": "2026-07-15T08:00:00+08:00", "traj": TALK})
    assert reading.column("arrival_us") == [1_784_073_600_000_000, None]
    assert reading.column("utc_offset_min") == [480, None]


def test_a_request_comes_when_the_last_message_before_the_answer_does(talks: Read) -> None:
    times = [10, 11, 60, 63]
    reading = talks(
        {"id": "a", "timestamp": 5, "traj": [t | {"timestamp": s} for t, s in zip(TALK, times, strict=True)]}
    )
    assert reading.column("arrival_us") == [10_000_000, 60_000_000]
    assert "timestamp" not in reading.rows[1]["messages"]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("{}", "no_answer"),
        ('{"id":1,"traj":[]}', "no_answer"),
        ('{"traj":[{"role":"user","content":"q"}]}', "no_answer"),
        ('{"traj":null,"messages":null}', "no_answer"),
        ('{"traj":5}', "bad_traj"),
        ('{"conversations":{"0":[]}}', "bad_conversations"),
        ('{"conversations":["q","a"]}', "bad_conversations"),
        ('{"conversations":[null]}', "bad_conversations"),
        ('{"traj":[{"role":5,"content":"q"}]}', "bad_turn"),
        ('{"traj":[{"role":null,"from":"gpt","value":"q"}]}', "bad_turn"),
        ('{"traj":[{}]}', "bad_turn"),
        ('{"traj":[{"from":"gpt","value":5}]}', "bad_messages"),
        ('{"traj":[{"role":"assistant","content":{"a":1}}]}', "bad_messages"),
        ('{"traj":[{"role":"assistant","content":"a"}],"tools":"["}', "bad_tools"),
        ('{"traj":[{"role":"assistant","content":"a"}],"tools":7}', "bad_tools"),
        ('{"traj":[{"role":"assistant","content":"a"}],"tools":[7]}', "bad_tools"),
        ('{"traj":[{"role":"assistant","content":"a"}],"ts":"soon"}', "bad_time"),
        ('{"traj":[{"role":"user","content":"q","ts":true},{"role":"assistant","content":"a"}]}', "bad_time"),
        ('{"traj":[{"role":"assistant","content":"\\ud83d"}]}', "bad_json"),
        ('{"traj":[{"role":"assistant","content":"a"}', "bad_json"),
        (b'{"traj":[{"role":"assistant","content":"\xff"}]}', "bad_utf8"),
        ("[]", "not_an_object"),
        ('{"traj":' + "[" * 5_000 + "]" * 5_000 + "}", "bad_traj"),
        ('{"tools":' + "[" * 5_000 + "]" * 5_000 + "}", "too_deep"),
        ('{"traj":[{"role":"assistant","content":"a","n":NaN}]}', "bad_json"),
        ('{"traj":[{"role":"assistant","content":1e400}]}', "bad_traj"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_counted_reject(talks: Read, record: str | bytes, reason: str) -> None:
    reading = talks(record, {"id": "good", "traj": [USER, FIRST]})
    assert reading.reasons == [reason]
    assert reading.column("request_id") == ["good#1"]
    assert reading.records == 2


def test_a_prompt_of_another_format_is_named(talks: Read) -> None:
    reading = talks('{"id":"a","prompt":"x"}', {"prompt": "x", "traj": [FIRST]})
    assert reading.reasons == ["no_answer", "other_format"]


def test_histories_beyond_all_bounds_are_rejected_before_they_are_built(talks: Read) -> None:
    # 20,000 answers of one character: 20,000**2 / 2 histories of 36 bytes a message are 6.7 GiB.
    reading = talks(
        {"id": "long", "traj": [{"role": "assistant", "content": "a"}] * 20_000}, {"traj": [USER, FIRST]}
    )
    assert reading.reasons == ["too_many_turns"]
    assert len(reading.rows) == 1


def test_a_chunk_counts_what_it_unrolls_into(tmp_path: Path) -> None:
    # 100 answers of 10,000 characters: 1 MB in the file, 50 MB of histories.
    record = {"id": 1, "traj": [{"role": "assistant", "content": "x" * 10_000}] * 100}
    (tmp_path / "log").write_text((json.dumps(record) + "\n") * 3)
    _, sizes = reading_of(tmp_path / "log")
    assert sizes == [100, 100, 100, 0]


def test_a_byte_order_mark_and_carriage_returns(talks: Read) -> None:
    reading = talks(
        b'\xef\xbb\xbf{"id":1,"traj":[{"role":"user","content":"a\xe2\x80\xa8b"},{"role":"assistant","content":"c"}]}\r'
    )
    assert reading.column("messages") == ['[{"role":"user","content":"a\u2028b"}]']


def line(**record: Any) -> bytes:
    return json.dumps(record).encode() + b"\n"


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (line(task_id=1, traj=TALK), True),
        (line(id="a", conversations=[]), True),
        (line(conversation_id="a", model="m", conversation=TALK), True),
        (line(conversation_id="a", conversation="talk"), False),
        (line(dialogue_id="1", messages=TALK), True),
        (line(dialogue_id="1", messages=[*TALK, MORE]), True),
        (line(messages=TALK), True),
        (line(id="1", messages=TALK), True),
        # What a request carries is a prompt, however long its history.
        (line(messages=[*TALK, MORE]), False),
        (line(conversation_id="1", messages=[*TALK, MORE]), False),
        (line(dialogue_id="1", messages=[USER, FIRST]), False),
        (line(id="1", model="m", messages=TALK), False),
        (line(id="1", timestamp=3, messages=TALK), False),
        (line(custom_id="1", body={"messages": TALK}), False),
        (line(prompt="conversations"), False),
        (line(dialogue_id="1", messages=[{"role": 1}]), False),
        (line(dialogue_id="1", messages=["q"]), False),
        (b"", False),
        (b"[]\n5\n{broken\n", False),
        (b"{broken\n[]\n\n" + line(messages=TALK) * 2, True),
        (line(messages=TALK) + line(messages=[USER]), False),
        (line(traj=[USER | {"content": "x" * 1_000}])[:500], True),
    ],
)  # fmt: skip
def test_sniffing(head: bytes, wanted: bool) -> None:
    assert READER.sniff(head) is wanted
    assert READER.sniff(b"\xef\xbb\xbf" + head) is wanted


def test_tau_bench(shared: Path) -> None:
    path = shared / "data" / "tau_bench" / "gpt-4o-airline.trial0.jsonl"
    assert READER.sniff(path.read_bytes()[:262_144])
    reading, _ = reading_of(path)
    assert (len(reading.rows), reading.rejects) == (642, [])
    assert len(set(reading.column("session_id"))) == 50
    assert len(set(reading.column("request_id"))) == 642
    # Every request holds the one before it of its conversation.
    for before, row in zip(reading.rows, reading.rows[1:], strict=False):
        if before["session_id"] == row["session_id"]:
            assert row["messages"].startswith(before["messages"][:-1])


def test_crosswoz(shared: Path) -> None:
    path = shared / "data" / "crosswoz_zh" / "val_first300.jsonl"
    assert READER.sniff(path.read_bytes()[:262_144])
    reading, _ = reading_of(path)
    # 5,066 messages, each second one an answer.
    assert (len(reading.rows), reading.rejects) == (2_533, [])
    assert len(set(reading.column("session_id"))) == 300


def test_no_other_real_log_is_taken_for_conversations(shared: Path, data: Path) -> None:
    files = [*shared.glob("data/*/*.jsonl"), *shared.glob("cases/*/input.jsonl"), *data.glob("*.jsonl")]
    taken = [path.parent.name for path in files if READER.sniff(path.read_bytes()[:262_144])]
    assert sorted(taken) == ["crosswoz_zh", "tau_bench"]
