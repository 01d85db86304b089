# SPDX-License-Identifier: Apache-2.0
"""The address of the database: which are taken, and that none is ever repeated."""

import pytest

from roost.errors import DatabaseAddressError, OptionError
from roost.scheduler.all_options import read_options
from roost.store.engine import parse_database_url, redacted_url
from roost.store.options import DatabaseOptions

SECRET = "s3cr3t-word"


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("sqlite:////var/lib/roost/roost.db", "sqlite+pysqlite"),
        ("sqlite:///roost.db", "sqlite+pysqlite"),
        ("postgresql://u:p@h/db", "postgresql+psycopg"),
        ("postgresql+psycopg2://u:p@h/db", "postgresql+psycopg"),
        ("postgres://u:p@h/db", "postgresql+psycopg"),
        ("mysql://u:p@h/db", "mysql+pymysql"),
        ("mysql+pymysql://u:p@h/db?charset=utf8", "mysql+pymysql"),
        ("mariadb://u:p@h:3307/db", "mysql+pymysql"),
        ("  mysql+mysqldb://u:p@h/db \n", "mysql+pymysql"),
    ],
)
def test_every_spelling_that_nova_knows_gets_the_driver_that_is_here(text, driver):
    assert parse_database_url(text).drivername == driver


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not set"),
        ("", "is not set"),
        (f"{SECRET}", "is no address"),
        (f"postgresql://u:{SECRET}@h:port/db", "is no address"),
        (f"oracle://u:{SECRET}@h/db", "'oracle' is no kind of database"),
        (f"postgresl://u:{SECRET}@h/db", "did you mean postgresql?"),
        (f"postgresql://u:x@{SECRET}@h/db", "write %40 for @"),
        (f"mysql://u:{SECRET}@h", "names no database"),
        (f"mysql://u:{SECRET}@h/db?chraset=utf8", "did you mean charset?"),
        (f"mysql://h/db?password={SECRET}", "has no parameter 'password'"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///file:x?uri=true", "names no file"),
        ("sqlite://x/y.db", "names a host"),
        ("sqlite:///x.db?mode=ro", "has no parameter 'mode'"),
    ],
)
def test_what_is_no_address_is_an_error_that_does_not_repeat_it(text, words):
    with pytest.raises(DatabaseAddressError) as caught:
        parse_database_url(text)
    message = str(caught.value)
    assert message.startswith("[database] connection")
    assert words in message
    assert SECRET not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"postgresql+psycopg://u:{SECRET}@h:5433/db?sslpassword={SECRET}", "postgresql://u:***@h:5433/db"),
        ("mysql://u@h/db", "mysql://u@h/db"),
        ("sqlite:////var/lib/roost.db", "sqlite:////var/lib/roost.db"),
    ],
)
def test_what_is_shown_has_no_password(text, shown):
    assert redacted_url(parse_database_url(text)) == shown


@pytest.mark.parametrize(
    "section_and_name", ["[database]\nconnection", "[DEFAULT]\nsql_connection", "[sql]\nconnection"]
)
def test_the_address_is_read_by_novas_names_old_and_new(tmp_path, section_and_name):
    file = tmp_path / "nova.conf"
    file.write_text(f"{section_and_name} = sqlite:////roost.db\n")
    assert read_options([file]).fill(DatabaseOptions).connection == "sqlite:////roost.db"


def test_the_options_do_not_show_the_address():
    assert SECRET not in repr(DatabaseOptions(connection=f"mysql://u:{SECRET}@h/db"))


def test_a_secret_of_the_wrong_kind_is_not_shown():
    with pytest.raises(OptionError) as caught:
        read_options(explicit={"database": {"connection": [f"mysql://u:{SECRET}@h/db"]}})
    assert str(caught.value) == "options: [database] connection = ***: is no text"
