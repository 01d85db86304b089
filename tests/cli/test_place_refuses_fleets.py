# SPDX-License-Identifier: Apache-2.0
"""Wrong fleet files: file, line, field and remedy in one line."""

import time

import pytest

H = "hosts:\n  - host: a\n    "
"""Whatever follows stands on line 3."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # values
        (f"{H}vcpu_total: 3", "fleet.yaml, line 3: hosts[0]: unknown field 'vcpu_total' (did you mean vcpus_total?)"),
        (f"{H}vcpus_total: -3", "fleet.yaml, line 3: hosts[0].vcpus_total: -3 is too small (at least 0)"),
        (f"{H}total_usable_ram_mb: -1", "hosts[0].total_usable_ram_mb: -1 is too small (at least 0)"),
        (f"{H}vcpus_total: .nan", "fleet.yaml, line 3: hosts[0].vcpus_total: nan is not a whole number"),
        (f"{H}free_ram_mb: -.inf", "line 3: hosts[0].free_ram_mb: -inf is not a whole number"),
        (f"{H}cpu_allocation_ratio: .inf", "hosts[0].cpu_allocation_ratio: inf is not a finite number"),
        (f"{H}stats: {{x: .nan}}", "line 3: hosts[0].stats.x: nan is not a finite number"),
        (f"{H}vcpus_total: many", "line 3: hosts[0].vcpus_total: 'many' is not a whole number"),
        (f"{H}vcpus_total: '4'", "hosts[0].vcpus_total: '4' is not a whole number"),
        (f"{H}vcpus_total: 2.5", "hosts[0].vcpus_total: 2.5 is not a whole number"),
        (f"{H}vcpus_total: true", "line 3: hosts[0].vcpus_total: True is not a whole number"),
        (f"{H}ram_allocation_ratio: yes", "hosts[0].ram_allocation_ratio: True is not a number"),
        (f"{H}vcpus_total: 1{'0' * 30}", "is too large (at most 1000000000000000)"),
        (f"{H}vcpus_total: 1{'0' * 5000}", "fleet.yaml, line 3: a number of 5001 digits"),
        (f"{H}vcpus_total: 0x1{'0' * 380}", "hosts[0].vcpus_total:"),
        (f"{H}vcpus_total:", "hosts[0].vcpus_total: None is not a whole number"),
        (f"{H}reserved_ram_mb: 4", "line 3: hosts[0].reserved_ram_mb: 4 is more than total_usable_ram_mb (0)"),
        (f"{H}traits: [hw_cpu]", "hosts[0].traits[0]: 'hw_cpu' is no trait (capitals, digits and underscores)"),
        (f"{H}service: {{disbled: true}}", "hosts[0].service: unknown field 'disbled' (did you mean disabled?)"),
        (f"{H}service: {{disabled: 1}}", "hosts[0].service.disabled: 1 is not a yes or no (write true or false)"),
        (f"{H}resources: {{gpu: {{total: 3}}}}", "'gpu' is no resource class (a standard one, or CUSTOM_NAME)"),
        (f"{H}resources: {{VGPU: {{total: 3, resrved: 1}}}}", "unknown field 'resrved' (did you mean reserved?)"),
        (
            f"{H}resources:\n      VGPU:\n        total: 3\n        reserved: 4",
            "line 6: hosts[0].resources.VGPU.reserved",
        ),
        (f"{H}instances: [{{uuid: x, flavour_id: 3}}]", "unknown field 'flavour_id' (did you mean flavor_id?)"),
        (f"{H}instances: [{{uuid: x, flavor_id: [3]}}]", "hosts[0].instances[0].flavor_id: [3] is no text"),
        (f"{H}instances: [{{uuid: x, resources: {{VCPU: -3}}}}]", "instances[0].resources.VCPU: -3 is too small"),
        (f"{H}aggregates: [{{name: x, id: {{}}}}]", "hosts[0].aggregates[0].id: {} is no text and no whole number"),
        (f"{H}stats: {{num_instances: abc}}", "hosts[0].stats.num_instances: 'abc' is not a whole number"),
        (f"{H}metrics: [{{name: x, value: abc}}]", "hosts[0].metrics[0].value: 'abc' is not a number"),
        (f"{H}numa: {{cells: [{{id: x, memory: 1}}]}}", "hosts[0].numa.cells[0].id: 'x' is not a whole number"),
        (f"{H}pci_pools: [{{vendor_id: '1'}}]", "hosts[0].pci_pools[0].product_id: is missing"),
        (f"{H}supported_instances: [[x86_64]]", "supported_instances[0]: ['x86_64'] is no triple"),
        # names
        ("hosts:\n  - vcpus_total: 3\n", "line 2: hosts[0].host: is missing (every host has a name)"),
        ("hosts:\n  - host: 007\n", "line 2: hosts[0].host: 7 is not text (put it in quotes)"),
        ("hosts:\n  - host: 2024-01-01\n", "hosts[0].host: 2024-01-01 is not text (put it in quotes)"),
        ('hosts:\n  - host: "a\\nb"\n', "hosts[0].host: 'a\\nb' has characters that cannot be printed"),
        ("hosts:\n  - host: a\n  - host: a\n", "line 3: hosts[1].host: host a, node a is there twice"),
        ("hosts:\n  - host: n-[1-9]\n  - host: n-5\n", "line 3: hosts[1].host: host n-5, node n-5 is there twice"),
        ("hosts:\n  - host: n-[20-10]\n", "line 2: hosts[0].host: the range [20-10] in 'n-[20-10]' runs backwards"),
        ("hosts:\n  - host: n-[0-99999999999]\n", "stands for 100000000000 hosts (at most 5000000)"),
        ("hosts:\n  - host: n[0-999][0-999][0-999]\n", "stands for 1000000000 hosts"),
        ("hosts:\n  - host: n[1..5]\n", "'n[1..5]' has a bracket that is no range (write a range as [001-200])"),
        ("hosts:\n  - host: n[1-5]\n    node: m[1-4]\n", "hosts[0].node: stands for 4 names and host for 5"),
        (
            "hosts:\n  - host: a\n    migrations: [{uuid: m, resources: {}}, {uuid: m, resources: {}}]\n",
            "hosts[0].migrations[1].uuid: m is listed twice",
        ),
        (
            "hosts:\n  - {host: a, instances: [m], migrations: [{uuid: m, resources: {}}]}\n",
            "hosts[0].migrations[0].uuid: m is listed twice",
        ),
        ("hosts:\n  - {host: a, migrations: [{uuid: m}]}\n", "hosts[0].migrations[0].resources: is missing"),
        ("hosts:\n  - host: n[1-5]\n    uuid: x\n", "hosts[0].uuid: cannot be the same on 5 hosts"),
        # other sections
        ("host: []\n", "fleet.yaml, line 1: unknown field 'host' (did you mean hosts?)"),
        ("- host: a\n", "fleet.yaml: [{'host': 'a'}] is not a fleet (write hosts: and a list below it)"),
        ("hosts: false\n", "line 1: hosts: False is not a list"),
        ("hosts: {host: a}\n", "line 1: hosts: {'host': 'a'} is not a list"),
        ("hosts: [a]\n", "line 1: hosts[0]: 'a' is not a host (write host: NAME)"),
        (
            "hosts: [{host: node-001}]\naggregates:\n  - name: x\n    hosts: [node-01]\n",
            "line 4: aggregates[0].hosts: there is no host node-01 (did you mean node-001?)",
        ),
        ("aggregates: [{name: x, hosts: 'n[1-4000000]'}]\n", "stands for 4000000 hosts (the fleet has 0)"),
        ("aggregates: [{name: x}, {name: x}]\n", "aggregates[1].name: aggregate x is there twice"),
        ("aggregates: [{name: x, metadata: {a: [1]}}]\n", "aggregates[0].metadata.a: [1] is not text"),
        (
            "flavors: [{name: s, vcpus: 1, memory: 1}]\n",
            "flavors[0]: unknown field 'memory' (did you mean memory_mb?)",
        ),
        ("flavors: [{name: s, vcpus: 1}]\n", "flavors[0].memory_mb: is missing"),
        ("flavors: [{name: s, vcpus: 1, memory_mb: -1}]\n", "flavors[0].memory_mb: -1 is too small"),
        ("flavors: [{vcpus: 1, memory_mb: 1}]\n", "flavors[0].name: is empty"),
        (
            "flavors: [{name: s, vcpus: 1, memory_mb: 1, extra_specs: {a: .nan}}]\n",
            "extra_specs.a: nan is not a finite",
        ),
        ("images: [{name: s, properties: {hw_cpu_cores: abc}}]\n", "images[0].properties.hw_cpu_cores: 'abc' is not"),
        ("server_groups: [{name: s, policy: afinity}]\n", "server_groups[0].policy: 'afinity' is no policy (one of"),
        # what is no YAML
        (
            "hosts:\n  - host: [a\n",
            "line 3: not YAML: while parsing a flow sequence did not find expected ',' or ']'",
        ),
        ("hosts:\n\t- host: a\n", "line 2: not YAML: while scanning for the next token found"),
        ("hosts:\n\t- host: a\n", "(indent with spaces, not with tabs)"),
        ("hosts: !!python/object:os.system x\n", "line 1: not YAML: could not determine a constructor for the tag"),
        ("hosts: []\n---\nhosts: []\n", "line 2: not YAML: expected a single document"),
        (b"hosts:\n  - host: a\x00b\n", "fleet.yaml: not YAML: unacceptable character #x0000"),
        (
            "hosts:\n  - host: caf\xe9\n".encode("latin-1"),
            "fleet.yaml, line 2: byte 20 is not UTF-8 (save the file as",
        ),
        ("hosts: []".encode("utf-16"), "fleet.yaml, line 1: byte 0 is not UTF-8"),
        # the same key twice
        (f"{H}vcpus_total: 3\n    vcpus_total: 4\n", "fleet.yaml, line 4: the key 'vcpus_total' is there twice"),
        ("hosts: []\nhosts: []\n", "fleet.yaml, line 2: the key 'hosts' is there twice in one mapping (remove one)"),
        # options
        (
            "options:\n  filter_scheduler:\n    host_subset_siz: 3\n",
            "fleet.yaml, line 3: [filter_scheduler] has no option host_subset_siz (did you mean host_subset_size?)",
        ),
        (
            "options:\n  filter_scheduler:\n    host_subset_size: x\n",
            "line 3: [filter_scheduler] host_subset_size = x: is",
        ),
        (
            "options:\n  filter_scheduler: {host_subset_size: true}\n",
            "host_subset_size = True: is not a whole number",
        ),
        ("options:\n  filter_scheduler: {host_subset_size: }\n", "host_subset_size: has no value"),
        ("options:\n  filter_scheduler: {host_subset_size: 1.5}\n", "host_subset_size = 1.5: is not a whole number"),
        ("options:\n  filter_scheduler: {enabled_filters: 5}\n", "enabled_filters = 5: is no list of texts"),
        (
            "options:\n  filter_scheduler: {ram_weight_multiplier: .nan}\n",
            "ram_weight_multiplier: nan is not a finite",
        ),
        (
            "options:\n  filter_schedule: {a: 1}\n",
            "line 2: there is no section [filter_schedule] (did you mean filter_",
        ),
        ("options:\n  DEFAULT: {foo: 1}\n", "line 2: [DEFAULT] has no option foo"),
        ("options: {filter_scheduler: 3}\n", "options.filter_scheduler: 3 is not a mapping"),
        ("options: [1]\n", "options: [1] is not a mapping"),
    ],
)
def test_a_wrong_fleet_is_told_in_one_line(place_on, text, message):
    place_on(text).assert_refused(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hosts": [\n{"host": "a",}]}', "fleet.json, line 2: not JSON: Expecting property name"),
        ("", "fleet.json, line 1: not JSON: Expecting value"),
        (
            '{"hosts": [\n{"host": "a", "vcpus_total": NaN}]}',
            "line 2: hosts[0].vcpus_total: nan is not a whole number",
        ),
        ('{"hosts": [{"host": "a", "vcpus_total": -Infinity}]}', "hosts[0].vcpus_total: -inf is not a whole number"),
        ('{"hosts": [{"host": "a", "cpu_allocation_ratio": 1e999}]}', "inf is not a finite number"),
        (
            '{"hosts": [\n\n{"host": "a", "vcpus_total": 1' + "0" * 5000 + "}]}",
            "line 3: a number of thousands of digits",
        ),
        ('{"hosts": [{"host": "a", "cpu_allocation_ratio": 1' + "0" * 400 + "}]}", "is too large (at most 1000000"),
        (
            '{"hosts": [{"host": "a",\n"vcpus_total": 3,\n"vcpus_total": 4}]}',
            "line 3: the key 'vcpus_total' is there twice",
        ),
        (
            '{"hosts": [],\n"flavors": [],\n"hosts": []}',
            "fleet.json, line 3: the key 'hosts' is there twice in one object",
        ),
        ('{"hosts": [{"host": "a"},\n{"host": "b",\n"vcpu": 3}]}', "line 3: hosts[1]: unknown field 'vcpu'"),
        ('{"options": {"scheduler": {\n"max_attempts": 0}}}', "fleet.json, line 2: [scheduler] max_attempts = 0"),
    ],
)
def test_the_same_goes_for_json(place_on, text, message):
    place_on(text, name="fleet.json").assert_refused(message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.yaml", "nowhere.yaml: cannot be read: No such file or directory"),
        (".", "cannot be read: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_read(roost, name, message):
    roost("place", "--fleet", name, "--vcpus", 1, "--ram", 1).assert_refused(message, "(check the path)")


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)
MERGED_LAUGHS = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n"
    for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(LAUGHS + "hosts: *j\n", "line 7: aliases expand to more than", id="billion laughs"),
        pytest.param(MERGED_LAUGHS, "aliases expand to more than", id="billion merged laughs"),
        pytest.param("hosts: " + "[" * 300_000, "line 1: nested deeper than 64 levels", id="deep list"),
        pytest.param("hosts: " + "{a: " * 300_000, "line 1: nested deeper than 64 levels", id="deep mapping"),
        pytest.param("hosts: &a [*a]\n", "line 1: *a is inside of what it stands for", id="list in itself"),
        pytest.param(f"{H}stats: &a {{x: *a}}\n", "line 3: *a is inside of", id="mapping in itself"),
        pytest.param(f"{H}vcpus_total: 1{':1' * 500_000}\n", "a number of 1000001 digits", id="number to base 60"),
        pytest.param(f"{H}vcpus_total: !!int '1{':1' * 500_000}'\n", "a number of", id="tagged number to base 60"),
    ],
)
def test_a_yaml_bomb_is_refused_before_it_goes_off(place_on, text, message):
    started = time.process_time()
    place_on(text).assert_refused(message)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hosts": ' + "[" * 300_000 + "]" * 300_000 + "}", "fleet.json: nested too deeply"),
        ('{"hosts": ' + '{"a":' * 300_000 + "1" + "}" * 300_000 + "}", "fleet.json: nested too deeply"),
        (
            '{"hosts": [{"host": "a", "stats": {"x": ' + "[" * 400 + "]" * 400 + "}}]}",
            "hosts[0].stats: is nested too deeply",
        ),
        ('{"hosts": [{"host": "a", "vcpus_total": ' + "[" * 800 + "]" * 800 + "}]}", "is not a whole number"),
    ],
)
def test_json_that_is_nested_deeply_is_refused(place_on, text, message):
    started = time.process_time()
    place_on(text, name="fleet.json").assert_refused(message)
    assert time.process_time() - started < 5


def test_aliases_and_merges_that_people_write_are_fine(place_on):
    text = "x: &kind {vcpus_total: 8, total_usable_ram_mb: 8192}\n"
    done = place_on(text)
    done.assert_refused("unknown field 'x'")  # no section of that name; but inside of hosts:
    hosts = "".join(f"  - {{host: n{number}, <<: *kind}}\n" for number in range(2000))
    done = place_on(f"hosts:\n  - &kind {{host: first, vcpus_total: 8, total_usable_ram_mb: 8192}}\n{hosts}")
    assert done.code == 0
    assert "2001 hosts looked at" in done.out
