# SPDX-License-Identifier: Apache-2.0
"""Users of nova's databases that may do less than all."""

from sqlalchemy.engine import make_url


def add_user(databases, kind, stored, user, rights):
    """The address of a database for a user that has these rights on all its tables, none if empty."""
    if kind == "mariadb":
        databases.execute(kind, f"CREATE USER IF NOT EXISTS '{user}'@'%'")
        if rights:
            databases.execute(kind, f"GRANT {rights} ON {stored.name}.* TO '{user}'@'%'")
    else:
        make = f"DO 'BEGIN CREATE ROLE {user} LOGIN; EXCEPTION WHEN duplicate_object THEN END'"
        databases.execute(kind, make)
        if rights:
            on_tables = f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO {user}"
            databases.execute(kind, on_tables, database=stored.name)
    return make_url(stored.address).set(username=user).render_as_string(hide_password=False)
