"""Section 6: what a harness is given is refused at the call, with one clear error that says what to give instead."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import UsageError, workflow
from perdure.testing import Harness


@workflow
async def nothing() -> None: ...


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a run id that is no text": ({"run_id": 5}, "a run id must be text, not int"),
    "an empty run id": ({"run_id": ""}, "a run id is empty"),
    "a run id with a line break": ({"run_id": "a\nb"}, "a run id holds the control character"),
    "a run id that is too long": ({"run_id": "x" * 513}, "a run id has 513 characters"),
    "a limit that is text": ({"turn_limit": "2"}, "the limit of a turn is a number of seconds"),
    "a limit that is a truth": ({"turn_limit": True}, "the limit of a turn is a number of seconds"),
    "a limit below nothing": ({"turn_limit": -1}, "the limit of a turn is a number of seconds"),
    "a seed that is text": ({"seed": "7"}, "seed is a whole number"),
    "a time without a zone": ({"now": datetime(2026, 1, 1)}, "now is a datetime with a time zone"),
    "a time that is text": ({"now": "2026-01-01"}, "now is a datetime with a time zone"),
    "another way to match": ({"match": "loosely"}, "match is strict or names"),
    "a policy by name": ({"policy": "deterministic"}, "policy= takes a state"),
    "an option that is none": ({"limit": 2}, "Harness has no option limit"),
}


@pytest.mark.parametrize(("options", "text"), BAD.values(), ids=BAD)
def test_a_wrong_option_is_refused_when_the_harness_is_made(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Harness(nothing, **options)


def test_a_run_id_is_a_uuid_and_another_text_stands_for_its_uuid_of_version_5() -> None:
    given = "0b8a4d2c-5d3e-4f6a-9b7c-8d9e0f1a2b3c"
    assert Harness(nothing, run_id=given).transcript.run_id == given
    named = [Harness(nothing, run_id=name, now=datetime(2026, 1, 1, tzinfo=UTC)).transcript.run_id for name in "aab"]
    assert named[0] == named[1] != named[2]
    assert uuid.UUID(named[0]).version == 5
