# SPDX-License-Identifier: Apache-2.0
"""A small fleet, and plugins as companies wrote them for nova, in `plugins/`: loaded as they are."""

from pathlib import Path

import pytest

from roost import Flavor, Fleet, NoValidHost, RequestSpec, Scheduler

PLUGINS = Path(__file__).with_name("plugins")
SMALL = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
DOCUMENT = {
    "hosts": [
        {
            "host": "a1",
            "vcpus_total": 4,
            "total_usable_ram_mb": 8192,
            "total_usable_disk_gb": 100,
            "num_io_ops": 2,
            "stats": {"cpu_model": "cascade"},
            "instances": [
                {"uuid": "i1", "project_id": "blue", "resources": {"MEMORY_MB": 1024, "VCPU": 1}},
                {"uuid": "i2", "project_id": "red", "resources": {"MEMORY_MB": 4096, "VCPU": 1}},
            ],
        },
        {
            "host": "a2",
            "vcpus_total": 4,
            "total_usable_ram_mb": 4096,
            "total_usable_disk_gb": 100,
            "traits": ["CUSTOM_OLD_IRON"],
            "instances": [{"uuid": "i3", "project_id": "red", "resources": {"MEMORY_MB": 1024, "VCPU": 1}}],
        },
        {"host": "b1", "vcpus_total": 4, "total_usable_ram_mb": 2048, "total_usable_disk_gb": 100},
        {
            "host": "c1",
            "vcpus_total": 4,
            "total_usable_ram_mb": 16384,
            "total_usable_disk_gb": 100,
            "service": {"disabled": False, "up": True},
        },
    ],
    "aggregates": [
        {
            "name": "rack one",
            "hosts": ["a1", "a2"],
            "metadata": {"rack": "r1", "tenant": "blue", "licences": "debian, rhel", "tier_weight_multiplier": "7"},
        },
        {"name": "rack two", "hosts": ["b1"], "metadata": {"rack": "r2", "ram_headroom_mb": "0"}},
    ],
    "server_groups": [{"name": "spread", "uuid": "5c1e0e0c-0000-4000-8000-00000000000a", "policy": "legacy"}],
}


@pytest.fixture
def scheduler_with(tmp_path, monkeypatch):
    """A scheduler with these filters, weighers and lines of configuration; plugins lie where the program runs."""
    monkeypatch.chdir(PLUGINS)

    def make(*filters, weighers=(), lines="", document=DOCUMENT, **options):
        names = ",".join(path.rpartition(".")[2] for path in filters)
        available = "".join(f"available_filters = {path}\n" for path in filters if "." in path)
        config = tmp_path / f"nova-{len(list(tmp_path.glob('*.conf')))}.conf"
        config.write_text(
            "[filter_scheduler]\navailable_filters = nova.scheduler.filters.all_filters\n"
            f"{available}enabled_filters = {names}\nweight_classes = {','.join(weighers)}\n{lines}"
        )
        return Scheduler(Fleet.load(document), config_files=[config], seed=1, **options)

    return make


def ask(scheduler, **spec):
    """The hosts that pass the filters, in their order of preference; nothing is taken."""
    request = RequestSpec(**{"flavor": SMALL, "project_id": "blue", "instance_uuid": "new"} | spec)
    try:
        decision = scheduler.place(request, alternates=10)
    except NoValidHost:
        return []
    for selection in decision.selections:
        scheduler.release(selection)
    return [selection.host for selection in decision.selections] + [
        other.host for other in decision.selections[0].alternates
    ]
