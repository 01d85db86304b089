# SPDX-License-Identifier: Apache-2.0
"""Addresses of cell databases: templates as nova fills them in, drivers, and another user."""

import pytest

from roost.errors import DatabaseAddressError
from roost.nova.databases.api import CellAddresses
from roost.scheduler.options import CellDatabaseOptions

OWN = "mysql+pymysql://nova:p%40ss@DB.Internal:3306/nova?charset=utf8#part"


def address(text, own=OWN, **options):
    url = CellAddresses(own, CellDatabaseOptions(**options)).url_for("cell1", text)
    return url.render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        (
            "{scheme}://{username}:{password}@{hostname}:{port}/{path}",
            "mysql+pymysql://nova:p%40ss@db.internal:3306/nova",
        ),
        ("{scheme}://{username}:{password}@other/nova_cell2?{query}", "mysql+pymysql://nova:p%40ss@other/nova_cell2"),
        ("{scheme}://{username}:{password}@h/{fragment}", "mysql+pymysql://nova:p%40ss@h/part"),
        ("postgresql+psycopg2://u:w@h/n", "postgresql+psycopg://u:w@h/n"),
        ("mysql://u:w@h/n?charset=utf8&plugin=dbcounter&ssl_ca=/a/b", "mysql+pymysql://u:w@h/n?ssl_ca=%2Fa%2Fb"),
    ],
)
def test_an_address_is_filled_in_and_gets_the_driver_that_is_there(template, filled):
    assert address(template) == filled


def test_user_and_password_are_replaced_by_the_options():
    found = address("mysql://nova:old@h/n", cell_database_user="reader", cell_database_password="p@ss")
    assert found == "mysql+pymysql://reader:p%40ss@h/n"


def test_another_user_without_a_password_does_not_get_that_of_nova():
    assert "old" not in address("mysql://nova:old@h/n", cell_database_user="reader")


def test_a_part_that_is_missing_is_the_text_none_as_in_nova():
    assert address("mysql://{username}@h/n", own="mysql://db.internal/nova") == "mysql+pymysql://None@h/n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is not set"),
        ("sqlite:////tmp/x.db", "names a file"),
        ("mysql://u:hidden@h/n{nonsense}", "nova has no variable {nonsense}"),
        ("oracle://u:hidden@h/n", "is no kind of database"),
        ("u:hidden at h", "is no address of a database"),
        ("mysql://u:hidden@h/", "names no database"),
        ("mysql://u:hidden@h/" + "n" * 10_000, "is longer than"),
    ],
)
def test_an_address_that_is_not_understood_is_said_in_one_line_without_the_password(text, said):
    with pytest.raises(DatabaseAddressError) as caught:
        address(text)
    message = str(caught.value)
    assert said in message
    assert "in the mapping of cell 'cell1'" in message
    assert "hidden" not in message
    assert "\n" not in message


def test_options_do_not_show_the_password():
    assert "open-sesame" not in repr(CellDatabaseOptions("reader", "open-sesame"))
