# SPDX-License-Identifier: Apache-2.0
"""The forms of answers that the published OpenAPI promises."""

import jsonschema


def check_form(client, path, answer, method="get"):
    """Raise unless the body of the answer has the form that is published for this method of a path."""
    document = client.http.get("/openapi.json").json()
    schema = document["paths"][path][method]["responses"][str(answer.status_code)]["content"]["application/json"][
        "schema"
    ]
    jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
