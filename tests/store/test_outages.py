# SPDX-License-Identifier: Apache-2.0
"""Lost acknowledgements and a restart of MariaDB under load: a small part of what `make soak` does."""

import pytest
from tests.soak.outages import lose_acknowledgements, restart_under_load
from tests.store.servers import MariaDB


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_d19_clients_whose_acknowledgements_are_lost_get_right_answers(databases, kind):
    figures = lose_acknowledgements(databases.server(kind), databases.create(kind), steps=40, seed=1)
    assert figures["lost"] > 5


def test_d8_no_request_fails_while_mariadb_restarts():
    server = MariaDB()
    try:
        address = server.create_database("restarting")
        assert restart_under_load(server, address, requests=200, restarts=1, seed=1)["placed"] == 200
    finally:
        server.stop()
