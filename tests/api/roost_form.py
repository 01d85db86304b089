# SPDX-License-Identifier: Apache-2.0
"""The forms of answers that the published OpenAPI promises."""

import jsonschema


def check_form(client, path, answer):
    """Raise unless the body of the answer has the form that is published for the GET of a path."""
    document = client.http.get("/openapi.json").json()
    schema = document["paths"][path]["get"]["responses"][str(answer.status_code)]["content"]["application/json"][
        "schema"
    ]
    jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
