# SPDX-License-Identifier: Apache-2.0
"""D16: a fleet file is data. Its options name no code, no addresses and no files."""

import sys
from contextlib import nullcontext

import pytest
import yaml
from tests.flow.cloud import HOST

from roost import Fleet, Scheduler
from roost.errors import OptionError, RoostError
from roost.options.declare import declared
from roost.scheduler.all_options import option_owners, read_options
from roost.services.attestation import AttestationOptions

EVIL = "import pathlib\npathlib.Path('imported').write_text('yes')\nclass Evil: pass\n"
REFUSED = {
    ("DEFAULT", "compute_driver"),
    ("DEFAULT", "compute_topic"),
    ("DEFAULT", "control_exchange"),
    ("DEFAULT", "default_log_levels"),
    ("DEFAULT", "host"),
    ("DEFAULT", "log_dir"),
    ("DEFAULT", "log_file"),
    ("DEFAULT", "osapi_compute_listen"),
    ("DEFAULT", "osapi_compute_listen_port"),
    ("DEFAULT", "osapi_compute_workers"),
    ("DEFAULT", "scheduler_json_config_location"),
    ("DEFAULT", "scheduler_topic"),
    ("DEFAULT", "transport_url"),
    ("api", "auth_strategy"),
    ("api", "compute_link_prefix"),
    ("api", "max_limit"),
    ("api_database", "connection"),
    ("conductor", "topic"),
    ("database", "connection"),
    ("libvirt", "connection_uri"),
    ("libvirt", "cpu_mode"),
    ("libvirt", "host_disk_gb"),
    ("libvirt", "host_disk_path"),
    ("libvirt", "host_memory_mb"),
    ("libvirt", "host_vcpus"),
    ("libvirt", "hw_machine_type"),
    ("libvirt", "live_migration_inbound_addr"),
    ("libvirt", "live_migration_permit_auto_converge"),
    ("libvirt", "live_migration_uri"),
    ("libvirt", "virt_type"),
    ("notifications", "versioned_notifications_topics"),
    ("oslo_middleware", "max_request_body_size"),
    ("pci", "device_spec"),
    ("roost", "api_health_port"),
    ("roost", "cell_database_password"),
    ("roost", "cell_database_user"),
    ("roost", "cloud"),
    ("roost", "compute_health_port"),
    ("roost", "conductor_health_port"),
    ("roost", "health_address"),
    ("roost", "health_port"),
    ("roost", "max_connections_per_client"),
    ("roost", "shadow"),
    ("roost", "shadow_notifications_pool"),
    ("roost", "shadow_notifications_topic"),
    ("roost", "shadow_outcome_timeout"),
    ("roost", "shadow_report"),
    ("roost", "shadow_topic"),
    ("roost", "state_directory"),
    ("roost", "token_expiration"),
    ("roost_fake", "pci_devices"),
    ("roost_fake", "state_directory"),
    ("scheduler", "driver"),
    ("trusted_computing", "attestation_api_url"),
    ("trusted_computing", "attestation_auth_blob"),
    ("trusted_computing", "attestation_insecure_ssl"),
    ("trusted_computing", "attestation_port"),
    ("trusted_computing", "attestation_server"),
    ("trusted_computing", "attestation_server_ca_file"),
    ("upgrade_levels", "scheduler"),
    ("wsgi", "client_socket_timeout"),
    ("wsgi", "ssl_ca_file"),
    ("wsgi", "ssl_cert_file"),
    ("wsgi", "ssl_key_file"),
}
"""Options that no fleet file may set, whatever the value."""
CHECKED = {
    ("filter_scheduler", "available_filters"),
    ("filter_scheduler", "baremetal_enabled_filters"),
    ("filter_scheduler", "enabled_filters"),
    ("filter_scheduler", "weight_classes"),
}
"""Options that a fleet file may set to names of installed plugins."""


def every_option():
    return [option for owner in option_owners() for option in declared(owner)]


def is_text(option):
    return option.kind not in (int, float, bool) and option.choices is None


# --- every option is classified ---


def test_d16_every_option_that_is_a_text_says_whether_a_fleet_file_may_set_it():
    assert [each.name for each in every_option() if is_text(each) and each.in_fleet is None] == []


def test_d16_the_options_that_a_fleet_file_may_not_set():
    assert {(each.group, each.name) for each in every_option() if each.in_fleet is False} == REFUSED
    assert {(each.group, each.name) for each in every_option() if callable(each.in_fleet)} == CHECKED


def test_d16_owners_of_one_option_agree():
    found = {}
    for each in every_option():
        assert found.setdefault((each.group, each.name), each.in_fleet) == each.in_fleet


@pytest.mark.parametrize("key", sorted(REFUSED))
def test_d16_what_may_not_be_set_is_refused_by_each_of_its_names(key):
    (option, *_) = [each for each in every_option() if (each.group, each.name) == key]
    value = 1 if option.kind is int else True if option.kind is bool else "secret://x"
    for section, name in (key, *option.old):
        with pytest.raises(OptionError) as caught:
            read_options(fleet={section: {name: value}})
        written = "***" if option.secret else repr(value) if isinstance(value, str) else value
        assert str(caught.value).startswith(f"options: [{section}] {name} = {written}: a fleet file may not name ")
        assert "set it in a config file" in str(caught.value)


# --- code ---


@pytest.mark.parametrize(
    "options",
    [
        {"available_filters": "evil.Evil"},
        {"available_filters": ["roost.filters.all_filters", "evil.Evil"]},
        {"enabled_filters": "ComputeFilter, evil.Evil"},
        {"enabled_filters": ["nova.scheduler.filters.evil.Evil"]},
        {"weight_classes": ["evil.Evil"]},
        {"weight_classes": "nova.scheduler.weights.evil.Evil"},
        {"baremetal_enabled_filters": ["evil.Evil"]},
        {"enabled_filters": ["$available_filters"]},
    ],
)
def test_d16_no_module_is_imported_because_a_fleet_file_names_it(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump({"hosts": [{"host": "a", **HOST}], "options": {"filter_scheduler": options}}))
    with pytest.raises(OptionError, match=r"fleet\.yaml, line \d+: \[filter_scheduler\] .* fleet file "):
        Scheduler(Fleet.load(path))
    assert not (tmp_path / "imported").exists()
    assert "evil" not in sys.modules


def test_d16_a_reference_to_an_option_that_may_be_set_leads_nowhere():
    options = {"DEFAULT": {"default_availability_zone": "evil.Evil"}, "filter_scheduler": {}}
    options["filter_scheduler"]["enabled_filters"] = ["$default_availability_zone"]
    with pytest.raises(OptionError, match="cannot refer to another option"):
        read_options(fleet=options)


def test_d16_the_command_says_file_line_option_and_remedy_in_one_line(place_on, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    fleet = "hosts: [{host: a, vcpus_total: 1, total_usable_ram_mb: 1}]\noptions:\n  filter_scheduler:\n"
    done = place_on(fleet + "    available_filters: evil.Evil\n", "--vcpus", 1, "--ram", 1)
    done.assert_refused(
        "fleet.yaml, line 4: [filter_scheduler] available_filters = 'evil.Evil': a fleet file may not"
    )
    assert "set it in a config file, with --config-file" in done.err
    assert not (tmp_path / "imported").exists()


def test_d16_a_config_file_names_plugins_as_before(place_on, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from roost.filters import HostFilter\n"
        "class Mine(HostFilter):\n    def host_passes(self, host, spec): return False\n"
    )
    (tmp_path / "my.conf").write_text("[filter_scheduler]\navailable_filters = mine.Mine\nenabled_filters = Mine\n")
    fleet = "hosts: [{host: a, vcpus_total: 1, total_usable_ram_mb: 1}]\n"
    done = place_on(fleet, "--vcpus", 1, "--ram", 1, "--config-file", "my.conf")
    assert done.code == 1
    assert "Mine" in done.err


# --- addresses and files ---


def test_d16_nothing_is_connected_to_because_a_fleet_file_says_so():
    fleet = {"hosts": [{"host": "a", **HOST}], "options": {"trusted_computing": {"attestation_server": "10.0.0.1"}}}
    with pytest.raises(OptionError, match=r"attestation_server = '10\.0\.0\.1': a fleet file may not name"):
        Scheduler(Fleet.load(fleet))
    explicit = {"trusted_computing": {"attestation_server": "10.0.0.1"}}
    assert read_options(explicit=explicit).fill(AttestationOptions).attestation_server == "10.0.0.1"


@pytest.mark.parametrize(
    ("kind", "value", "is_refused"),
    [
        ("StrOpt", "10.0.0.1", True),
        ("ListOpt", ["10.0.0.1"], True),
        ("FloatOpt", 2.0, False),
        ("BoolOpt", True, False),
    ],
)
def test_d16_a_plugins_option_may_be_a_number_and_no_text(tmp_path, monkeypatch, kind, value, is_refused):
    name = f"d16_{kind.lower()}"
    (tmp_path / f"{name}_plugin.py").write_text(
        "from oslo_config import cfg\nfrom nova.scheduler.filters import BaseHostFilter\n"
        f"cfg.CONF.register_opt(cfg.{kind}('{name}'), group='filter_scheduler')\n"
        "class D16Filter(BaseHostFilter):\n    def host_passes(self, host, spec): return True\n"
    )
    monkeypatch.chdir(tmp_path)
    fleet = Fleet.load({"hosts": [{"host": "a", **HOST}], "options": {"filter_scheduler": {name: value}}})
    plugin = {"available_filters": [f"{name}_plugin.D16Filter"], "enabled_filters": ["D16Filter"]}
    refused = pytest.raises(RoostError, match=f"{name}: a fleet file may set an option of a plugin to a number")
    with refused if is_refused else nullcontext():
        Scheduler(fleet, {"filter_scheduler": plugin})


# --- what stays ---


@pytest.mark.parametrize(
    "sections",
    [
        {"filter_scheduler": {"enabled_filters": ["RamFilter", "MyEntryPoint"], "host_subset_size": 2}},
        {"filter_scheduler": {"enabled_filters": "RamFilter, CoreFilter"}},
        {"filter_scheduler": {"weight_classes": "nova.scheduler.weights.all_weighers"}},
        {"filter_scheduler": {"weight_classes": ["nova.scheduler.weights.ram.RAMWeigher", "CPUWeigher"]}},
        {"filter_scheduler": {"available_filters": "nova.scheduler.filters.all_filters"}},
        {"filter_scheduler": {"isolated_hosts": ["a.example.org"], "ram_weight_multiplier": -1.0}},
        {"pci": {"alias": '{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}'}},
        {"metrics": {"weight_setting": ["cpu.frequency=1.0"]}, "scheduler": {"host_manager": "ironic_host_manager"}},
    ],
)
def test_d16_other_options_of_a_fleet_file_count_as_before(sections):
    settings = read_options(fleet=sections)
    for section, entries in sections.items():
        for name in entries:
            assert settings.origin(section, name) == "options"
