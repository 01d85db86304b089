# SPDX-License-Identifier: Apache-2.0
"""The published description of the API."""

import jsonschema
import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from roost.api.routes import ROUTES

OWN = [each for each in ROUTES if each.form is not None]


@pytest.fixture(scope="module")
def document(cloud):
    return cloud.client().http.get("/openapi.json").json()


def test_it_is_public_and_valid(document):
    assert document["openapi"].startswith("3.1")
    jsonschema_rs.validator_for(OPENAPI_31).validate(document)


def test_it_has_every_url(document):
    assert {(each.method.lower(), each.path) for each in ROUTES} == {
        (method, path) for path, methods in document["paths"].items() for method in methods
    }


@pytest.mark.parametrize("route", OWN, ids=lambda route: route.path)
def test_the_example_of_each_form_is_one_of_that_form(document, route):
    content = document["paths"][route.path][route.method.lower()]["responses"]["200"]["content"]
    schema = content["application/json"]["schema"]
    (example,) = document["components"]["schemas"][route.form.__name__]["examples"]
    jsonschema.validate(example, {**schema, "components": document["components"]})


def test_roosts_own_urls_say_what_a_body_may_hold(document):
    body = document["paths"]["/roost/v1/plan"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    named = document["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    assert set(named["properties"]) == {"server", "servers"}


@pytest.mark.parametrize("route", [each for each in ROUTES if not each.media], ids=lambda route: route.path)
def test_an_answer_without_a_body_has_no_content(document, route):
    described = document["paths"][route.path][route.method.lower()]["responses"][str(route.status)]
    assert "content" not in described


def test_an_action_may_be_done_at_once_or_begin(document):
    described = document["paths"]["/v2.1/servers/{server_id}/action"]["post"]["responses"]
    assert {"200", "202", "204"} <= set(described)
