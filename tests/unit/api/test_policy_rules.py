# SPDX-License-Identifier: Apache-2.0
"""The rules of policy are nova's, as nova itself prints them."""

import json
import re
from pathlib import Path

import pytest

import roost.api
from roost.api.policy_rules import BASES, IDENTITY, IMAGES, NOVA, OWN, RULES
from roost.api.routes import ROUTES

NOVAS = json.loads(Path(__file__).with_name("nova_policy_defaults.json").read_text())["rules"]


@pytest.mark.parametrize("rule", NOVA, ids=lambda rule: rule.name)
def test_a_rule_of_nova_has_novas_default_scope_and_requests(rule):
    nova = NOVAS[rule.name]
    assert (rule.check, list(rule.scopes)) == (nova["check"], nova["scopes"])
    assert set(rule.operations) <= set(nova["operations"])


def test_what_rules_refer_to_is_novas_as_well():
    own = [rule.name for rule in BASES if NOVAS.get(rule.name, {}).get("check") != rule.check]
    assert own == ["roost_fleet_reader"]


def test_a_rule_has_one_entry_with_a_description_and_its_requests():
    assert len({rule.name for rule in RULES}) == len(RULES)
    asked = (*NOVA, *IMAGES, *IDENTITY, *OWN)
    assert [rule.name for rule in asked if not rule.description or not rule.operations or not rule.scopes] == []


def test_every_rule_that_the_api_asks_for_is_there():
    asked = {rule for route in ROUTES for rule in route.rules}
    for path in Path(roost.api.__file__).parent.rglob("*.py"):
        asked |= set(re.findall(r'"((?:os_compute_api|compute|identity|roost):[\w:-]+)"', path.read_text()))
    names = [f"{rule.name}:" for rule in RULES]
    assert [each for each in asked if not any(name.startswith(f"{each}:") for name in names)] == []  # or a beginning
