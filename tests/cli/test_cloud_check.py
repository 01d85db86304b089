# SPDX-License-Identifier: Apache-2.0
"""`roost cloud check`: what it prints for what was found, and what it refuses."""

import pytest

from roost.nova import check as cloud_check
from roost.nova.surveys import FAILED, MISSING, OFF, OK, WARNING, ProbeResult

GRANT = "GRANT SELECT ON nova_api.host_mappings TO 'roost'@'10.0.0.%';"
OTHER = "GRANT SELECT ON nova_cell1.services TO 'roost'@'10.0.0.%';"
FOUND = [
    ProbeResult("API database", "connection", OK, "mysql://roost:***@db/nova_api"),
    ProbeResult("API database", "table", MISSING, "host_mappings: no right to SELECT", statement=GRANT),
    ProbeResult("cell cell0", "connection", OFF, "not read: it has no hosts"),
    ProbeResult("cell cell1", "table", MISSING, "services: no right to SELECT", statement=OTHER),
    ProbeResult("computes", "host mappings", WARNING, "1 of 2 hosts have none", "run nova-manage"),
]


@pytest.fixture
def check(roost, tmp_path, monkeypatch):
    """The command, where the probes find this."""
    (tmp_path / "nova.conf").write_text("[roost]\ncloud = nova\n")

    def run(found, *arguments):
        monkeypatch.setattr(cloud_check, "check_cloud", lambda *_: found)
        return roost("cloud", "check", "--config-file", "nova.conf", *arguments)

    return run


def test_what_is_to_be_done_comes_below_the_table_and_sql_stands_alone(check):
    done = check(FOUND)
    assert done.code == 1
    assert done.out.splitlines()[-6:] == [
        "2 missing, 1 ok, 1 off, 1 warning",
        "computes, host mappings: run nova-manage",
        "API database: as an administrator of this database, run",
        GRANT,
        "cell cell1: as an administrator of this database, run",
        OTHER,
    ]
    assert "Remedy" not in done.out


def test_the_remedy_is_a_column_if_it_is_named(check):
    done = check(FOUND, "-f", "value", "-c", "result", "-c", "remedy")
    assert done.out.splitlines()[1] == f"missing {GRANT}"
    assert done.out.splitlines()[4] == "warning run nova-manage"


def test_programs_get_all_of_it(check):
    record = check(FOUND, "-f", "json").record
    assert record["is_good"] is False
    assert record["probes"][1] == {
        "where": "API database",
        "what": "table",
        "result": "missing",
        "details": "host_mappings: no right to SELECT",
        "remedy": "",
        "statement": GRANT,
    }


@pytest.mark.parametrize(("result", "code"), [(OK, 0), (WARNING, 0), (OFF, 0), (MISSING, 1), (FAILED, 1)])
def test_the_exit_code_says_whether_something_is_in_the_way(check, result, code):
    assert check([ProbeResult("placement", "endpoint", result)]).code == code


def test_a_remedy_is_said_once(check):
    row = ProbeResult("API database", "table", FAILED, "x: there is no such table", "is it nova's?")
    assert check([row, row]).out.count("is it nova's?") == 1


@pytest.mark.parametrize("text", ["", "[roost]\ncloud = own\n"])
def test_another_kind_of_cloud_is_refused(roost, tmp_path, text):
    (tmp_path / "nova.conf").write_text(text)
    done = roost("cloud", "check", "--config-file", "nova.conf")
    done.assert_refused("this checks a nova cloud", "write [roost] cloud = nova")


def test_a_wrong_option_is_refused(roost, tmp_path):
    (tmp_path / "nova.conf").write_text("[roost]\ncloud = nva\n")
    roost("cloud", "check", "--config-file", "nova.conf").assert_refused("cloud = nva")
