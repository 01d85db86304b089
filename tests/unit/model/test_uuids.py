# SPDX-License-Identifier: Apache-2.0
"""What is a uuid, in any of its spellings."""

import pytest

from roost.model.uuids import is_uuid

UUID = "0c6e5973-286b-4f29-8999-18a76ec15d38"


@pytest.mark.parametrize("text", [UUID, UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}", f"urn:uuid:{UUID}"])
def test_every_spelling_of_a_uuid_is_one(text):
    assert is_uuid(text)


@pytest.mark.parametrize(
    "text", ["", "web-1", UUID[:-1], f"{UUID}0", "zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz", "----" + "0" * 32]
)
def test_other_texts_are_none(text):
    assert not is_uuid(text)
