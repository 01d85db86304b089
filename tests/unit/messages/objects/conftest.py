# SPDX-License-Identifier: Apache-2.0
"""Messages of nova's, and the object envelopes in them."""

import json
from pathlib import Path

import pytest

MESSAGES = Path(__file__).parents[3] / "wire"


@pytest.fixture
def message():
    """Reads a captured message by name."""
    return lambda name: json.loads((MESSAGES / f"{name}.json").read_text())


@pytest.fixture
def recorded():
    """Reads a recorded object by name."""
    return lambda name: json.loads((MESSAGES / "recorded" / f"{name}.json").read_text())


@pytest.fixture
def unchanged():
    """The value without the names of changed fields, which say nothing about it."""

    def strip(value):
        if isinstance(value, dict):
            return {key: strip(each) for key, each in value.items() if key != "nova_object.changes"}
        return [strip(each) for each in value] if isinstance(value, list) else value

    return strip


@pytest.fixture
def envelope():
    """Makes an envelope."""

    def make(name, version="1.0", namespace="nova", /, **data):
        head = {"nova_object.name": name, "nova_object.namespace": namespace, "nova_object.version": version}
        return head | {"nova_object.data": data}

    return make


@pytest.fixture
def flavor(envelope):
    """Makes a flavor's envelope."""
    return lambda **data: envelope("Flavor", **({"vcpus": 1, "memory_mb": 512} | data))


@pytest.fixture
def request_of(envelope, flavor):
    """Makes a request's envelope; a flavor is there unless another is given."""
    return lambda **data: envelope("RequestSpec", "1.15", **({"flavor": flavor()} | data))
