# SPDX-License-Identifier: Apache-2.0
"""`roost config check`: what an existing nova.conf means here. nova_confs/ has one of each era."""

from pathlib import Path

import pytest

CONFS = Path(__file__).with_name("nova_confs")
SECRETS = ("pass@", "-pass", "-secret")
"""How all passwords in nova_confs/ end."""


@pytest.fixture
def check(roost, tmp_path):
    """`roost config check` of a file with this text."""

    def run(text, *arguments):
        (tmp_path / "nova.conf").write_text(text)
        return roost("config", "check", "--config-file", "nova.conf", *arguments)

    return run


def spelt(entries):
    return {entry["option"] for entry in entries}


# --- one file of each era ----------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["icehouse", "newton", "today"])
@pytest.mark.parametrize("shape", ["table", "json", "yaml", "csv", "value"])
def test_a_nova_conf_of_any_era_is_understood_and_gives_no_secret_away(roost, era, shape):
    done = roost("config", "check", "--config-file", CONFS / f"{era}.conf", "-f", shape)
    assert (done.code, done.err) == (0, "")
    shown = done.out.replace("host-passthrough", "")
    assert [word for word in SECRETS if word in shown] == []


@pytest.mark.parametrize(
    ("era", "summary"),
    [
        ("icehouse", "53 understood (25 by old names), 9 unused here, 8 passed on to keystoneauth, 51 ignored"),
        (
            "newton",
            "49 understood (24 by old names), 3 unused here, 6 passed on to oslo.messaging, "
            "9 passed on to keystoneauth, 50 ignored",
        ),
        (
            "today",
            "49 understood, 2 unused here, 9 passed on to keystoneauth, 8 passed on to oslo.messaging, "
            "1 passed on to oslo.policy, 57 ignored",
        ),
    ],
)
def test_the_whole_file_in_a_line(roost, era, summary):
    path = CONFS / f"{era}.conf"
    done = roost("config", "check", "--config-file", path)
    assert f"{path}: {summary}\n  ignored, for they belong to other services: [" in done.out


def test_every_line_of_a_file_is_accounted_for(roost):
    for path in CONFS.iterdir():
        names = {line.partition("=")[0] for line in path.read_text().splitlines() if line[:1].isalpha()}
        (file,) = roost("config", "check", "--config-file", path, "-f", "json").record["files"]
        told = spelt(file["understood"] + file["renamed"] + file["unused"])
        counted = sum(file["ignored"].values()) + sum(file["passed_on"].values())
        assert len(told) + counted >= len(names)


def test_icehouse_has_everything_in_default(roost):
    (file,) = roost("config", "check", "--config-file", CONFS / "icehouse.conf", "-f", "json").record["files"]
    now = {entry["option"]: entry["new"] for entry in file["renamed"]}
    assert now["[DEFAULT] scheduler_driver"] == "[scheduler] driver"
    assert now["[DEFAULT] scheduler_default_filters"] == "[filter_scheduler] enabled_filters"
    assert now["[DEFAULT] sql_connection"] == "[database] connection"
    assert now["[DEFAULT] rabbit_password"] == "[DEFAULT] transport_url"
    why = {entry["option"]: entry["why"] for entry in file["unused"]}
    assert why["[DEFAULT] scheduler_manager"] == "there is one manager"
    assert set(file["ignored"]) == {
        "DEFAULT",
        "libvirt",
        "spice",
        "conductor",
        "upgrade_levels",
    }


def test_newton_has_its_broker_in_a_section_of_its_own(roost):
    done = roost("config", "show", "--config-file", CONFS / "newton.conf", "transport_url", "-f", "json")
    (option,) = done.record
    assert option["value"] == "rabbit://openstack:***@172.16.0.3:5672,openstack:***@172.16.0.4:5672/"


def test_today_needs_no_old_names(roost):
    (file,) = roost("config", "check", "--config-file", CONFS / "today.conf", "-f", "json").record["files"]
    assert file["renamed"] == []
    assert spelt(file["unused"]) == {
        "[filter_scheduler] pci_in_placement",
        "[scheduler] max_placement_results",
    }
    passed_on = {"oslo_concurrency": 1, "oslo_messaging_notifications": 3, "oslo_messaging_rabbit": 4}
    passed_on |= {"keystone_authtoken": 9, "oslo_policy": 1}
    assert file["passed_on"] == passed_on


def test_levels_of_logs_that_are_none_are_told(check):
    done = check("[DEFAULT]\ndefault_log_levels = a=b\n")
    assert (done.code, "default_log_levels" in done.err) == (2, True)


# --- what is good ------------------------------------------------------------------------------------


def test_what_needs_a_look_comes_first(check):
    text = (
        "[scheduler]\nmax_attempts = 2\nmax_placement_results = 5\n[DEFAULT]\nscheduler_driver = chance_scheduler\n"
    )
    assert check(text, "-f", "value").out == (
        "[DEFAULT] scheduler_driver renamed chance_scheduler now [scheduler] driver nova.conf\n"
        "[scheduler] max_placement_results unused  every host is looked at nova.conf\n"
        "[scheduler] max_attempts understood 2  nova.conf\n"
    )


def test_what_another_file_says_instead_is_told(roost, tmp_path):
    (tmp_path / "1.conf").write_text("[scheduler]\nmax_attempts = 2\n")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "2.conf").write_text("[scheduler]\nmax_attempts = 3\n")
    done = roost("config", "check", "--config-file", "1.conf", "--config-dir", "conf.d", "-f", "json")
    assert [file["understood"][0]["overridden_by"] for file in done.record["files"]] == ["conf.d/2.conf counts", ""]
    assert "File" in roost("config", "check", "--config-file", "1.conf", "--config-dir", "conf.d").out


def test_an_empty_file_is_a_good_one(check):
    done = check("")
    assert (done.code, done.err) == (0, "")


def test_an_option_that_nobody_knows_may_belong_to_a_plugin_that_is_named(check, tmp_path):
    (tmp_path / "own_filters.py").write_text(
        "from roost.filters import HostFilter\n\n\nclass OwnFilter(HostFilter):\n"
        "    def host_passes(self, host, spec):\n        return True\n"
    )
    text = "[filter_scheduler]\nlicences_per_rack = 3\nenabled_filters = own_filters.OwnFilter\n"
    done = check(text, "-f", "json")
    assert (done.code, done.err) == (0, "")
    assert done.record["files"][0]["unknown"] == ["[filter_scheduler] licences_per_rack"]
    assert "1 left to plugins" in check(text).out
    check("[filter_scheduler]\nlicences_per_rack = 3\n").assert_refused("has no option licences_per_rack")


# --- what is wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[filter_scheduler]\nhost_subset_siz = 3",
            "[filter_scheduler] has no option host_subset_siz (did you mean host_",
        ),
        ("[scheduler]\nmax_atempts = 3", "[scheduler] has no option max_atempts (did you mean max_attempts?)"),
        ("[roost]\nhealth_prot = 3", "[roost] has no option health_prot (did you mean health_port?)"),
        (
            "[DEFAULT]\nsheduler_driver = x",
            "[DEFAULT] has no option sheduler_driver (did you mean scheduler_driver?)",
        ),
        ("[database]\nconection = x", "[database] has no option conection (did you mean connection?)"),
        ("[schedular]\nworkers = 1", "there is no section [schedular] (did you mean scheduler?)"),
        ("[scheduler]\nworkers = some", "[scheduler] workers = some: is not a whole number"),
        ("[roost]\nhealth_port = 70000", "[roost] health_port = 70000: should be less than or equal to 65535"),
        ("[notifications]\nnotification_format = loud", "notification_format = loud: valid values are"),
        ("[filter_scheduler]\nenabled_filters = Nothing", "unknown filter Nothing"),
        ("[filter_scheduler]\nweight_classes = no.such.Weigher", "there is no module no"),
        ("[scheduler]\ndriver = no_such_scheduler", "no_such_scheduler"),
        ("[pci]\nalias = {", "alias"),
        ("[database]\nconnection = oracle://u:hush@h/db", "'oracle' is no kind of database"),
        (
            "[DEFAULT]\ntransport_url = amqp://u:hush@h/",
            "[DEFAULT] transport_url: no messages can be sent to amqp://...",
        ),
        (
            "[DEFAULT]\ntransport_url = rabbit://u:hush@h:port/",
            "[DEFAULT] transport_url or [oslo_messaging_rabbit] cannot",
        ),
        ("[oslo_messaging_rabbit]\nssl = perhaps", "[oslo_messaging_rabbit] ssl: Unexpected boolean value 'perhaps'"),
        (
            "[oslo_messaging_rabbit]\nuse_queue_manager = true",
            "use_queue_manager needs a folder for locks (write [oslo_",
        ),
        ("[scheduler\n", "nova.conf: cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line(check, text, message):
    done = check(text)
    done.assert_refused(message)
    assert "hush" not in done.err


def test_a_check_takes_no_number_and_makes_no_folder(check, tmp_path):
    text = f"[oslo_messaging_rabbit]\nuse_queue_manager = true\n[oslo_concurrency]\nlock_path = {tmp_path}/locks\n"
    assert check(text).code == 0
    assert not (tmp_path / "locks").exists()


def test_all_that_is_wrong_is_told_a_line_each(check):
    done = check("[scheduler]\nworkers = some\nmax_atempts = 1\n[filter_scheduler]\nhost_subset_size = 0\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 3
    assert all(line.startswith("roost: nova.conf: ") for line in done.err.splitlines())


def test_programs_find_all_that_is_wrong_in_the_record(check):
    record = check("[scheduler]\nworkers = some\nmax_atempts = 1\n", "-f", "json").record
    assert (record["is_good"], len(record["problems"])) == (False, 2)


def test_there_must_be_something_to_check(roost):
    roost("config", "check").assert_refused("there is nothing to check", "--config-file")


def test_a_folder_that_is_not_there(roost):
    roost("config", "check", "--config-dir", "nowhere").assert_refused("nowhere: cannot be read: No such file")


# --- a nova cloud ------------------------------------------------------------------------------------

NOVA_CLOUD = """\
[roost]
cloud = nova
[api_database]
connection = mysql+pymysql://nova:hush@db/nova_api?charset=utf8
[database]
connection = mysql+pymysql://nova:hush@db/nova_cell0?plugin=dbcounter
[placement]
auth_type = password
auth_url = http://keystone:5000/v3
username = nova
password = hush
region_name = east
project_name = service
user_domain_name = Default
project_domain_name = Default
"""


def test_a_nova_cloud_is_said_with_its_connections_and_no_secret(check):
    done = check(NOVA_CLOUD)
    assert (done.code, done.err) == (0, "")
    assert "8 passed on to keystoneauth" in done.out
    assert done.out.splitlines()[-4:] == [
        "a nova cloud: Roost would take the place of nova-scheduler (`roost cloud check` tries the connections)",
        "  API database: mysql://nova:***@db/nova_api",
        "  cells: their mappings, with the users that are named there",
        "  placement: auth_type password, auth_url http://keystone:5000/v3, region_name east, "
        "valid_interfaces internal, public",
    ]
    assert "hush" not in done.out


def test_programs_find_the_connections_in_the_record(check):
    user = "[roost]\ncell_database_user = reader\ncell_database_password = hush\n"
    record = check(f"{NOVA_CLOUD}{user}", "-f", "json").record
    assert record["cloud"] == {
        "kind": "nova",
        "api_database": "mysql://nova:***@db/nova_api",
        "cell_database_user": "reader",
        "placement": {
            "auth_type": "password",
            "auth_url": "http://keystone:5000/v3",
            "region_name": "east",
            "valid_interfaces": "internal, public",
        },
    }
    assert record["files"][0]["passed_on"] == {"placement": 8}
    assert "hush" not in str(record)


def test_a_section_of_credentials_that_placement_names_is_passed_on_too(check):
    text = "[roost]\ncloud = nova\n[api_database]\nconnection = mysql://nova@db/nova_api\n[placement]\n"
    text += "auth_section = login\n[login]\nauth_type = admin_token\nendpoint = http://u:hush@h\ntoken = hush\n"
    record = check(text, "-f", "json").record
    assert record["files"][0]["passed_on"] == {"placement": 1, "login": 3}
    assert record["cloud"]["placement"]["endpoint"] == "http://h"


def test_a_cloud_of_its_own_leaves_placement_alone(check):
    record = check("[placement]\nauth_type = x\n", "-f", "json").record
    assert record["cloud"] == {"kind": "own"}
    assert record["files"][0]["ignored"] == {"placement": 1}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("mysql+pymysql://nova:hush@db/nova_api", "oracle://nova:hush@db/x", "[api_database] connection: 'oracle'"),
        ("auth_type = password", "auth_type = pasword", "[placement] auth_type = pasword: keystoneauth has no such"),
        ("auth_url = http://keystone:5000/v3\n", "", "[placement] auth_type = password also needs: auth_url"),
    ],
)
def test_a_nova_cloud_that_cannot_be_used_is_one_line(check, before, after, message):
    done = check(NOVA_CLOUD.replace(before, after))
    done.assert_refused(message)
    assert "hush" not in done.err


def test_a_service_record_needs_the_address_of_its_database(check):
    text = NOVA_CLOUD.replace("cloud = nova\n", "cloud = nova\nservice_record = true\n")
    assert check(text).code == 0
    database = "[database]\nconnection = mysql+pymysql://nova:hush@db/nova_cell0?plugin=dbcounter\n"
    assert database in text
    check(text.replace(database, "")).assert_refused("[database] connection is not set", "write it as ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("shadow_topic = scheduler", "[roost] shadow_topic = scheduler is the topic of the live scheduler"),
        (
            "shadow_report = nowhere/shadow.jsonl",
            "nowhere/shadow.jsonl cannot be written: there is no folder nowhere",
        ),
        ("shadow_report = .", "[roost] shadow_report: . cannot be written: it is a folder"),
    ],
)
def test_shadow_mode_that_could_not_start_is_one_line(check, line, message):
    text = NOVA_CLOUD.replace("cloud = nova\n", f"cloud = nova\nshadow = true\n{line}\n")
    check(text).assert_refused(message)
    assert check(text.replace("shadow = true\n", "")).code == 0


def test_a_report_of_shadow_mode_in_a_folder_of_others_is_one_line(check, monkeypatch, tmp_path):
    text = NOVA_CLOUD.replace("cloud = nova\n", "cloud = nova\nshadow = true\nshadow_report = shadow.jsonl\n")
    assert check(text).code == 0
    assert not (tmp_path / "shadow.jsonl").exists()
    monkeypatch.setattr("os.access", lambda *_: False)
    check(text).assert_refused("[roost] shadow_report: shadow.jsonl cannot be written: permission denied")
