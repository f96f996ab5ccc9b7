from __future__ import annotations

import pytest

from kvtools.linting.names import judge


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ("never", "bos_token system_prompt instructions assistant_name version"),
        (
            "class",
            "user_type query_type language userTier user.profile.locale is_vip country_code message_format",
        ),
        ("unknown", "foo name product_name weather 会话 code"),
        ("history", "history messages last_3_messages chat_history recent_turns"),
        (
            "request",
            "session_id sessionId user.id order_no now created_at date_string message_count user_name question context",
        ),
    ],
)
def test_by_the_last_word(changes: str, names: str) -> None:
    assert {name: judge(name).changes for name in names.split()} == dict.fromkeys(names.split(), changes)


def test_the_user_overrules_by_name_or_root() -> None:
    assert judge("session_id", {"session_id": "class"}).changes == "class"
    assert judge("user.id", {"user": "never"}).changes == "never"
    assert judge("user.id", {"user": "never", "user.id": "request"}).changes == "request"
