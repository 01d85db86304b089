# SPDX-License-Identifier: Apache-2.0
"""Builds real nova objects (HostState, RequestSpec, HostManager) from cases, without database, bus or placement.

Needs an environment with nova. Written for 34.0.0; features that older releases lack are skipped, and the syntax is
that of Python 3.6, which Rocky needs. It contains no code of nova, which is only imported and called.
"""

import datetime
import json
import logging
import os
import uuid as uuidlib
from collections import OrderedDict

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")
logging.basicConfig(level=logging.ERROR)

import nova.conf  # noqa: E402
from nova import context as nova_context  # noqa: E402
from nova import objects  # noqa: E402
from nova.scheduler import host_manager as nova_hm  # noqa: E402
from nova.virt import hardware  # noqa: E402

try:
    from importlib.metadata import version as _version

    RELEASE = "nova " + _version("nova")
except Exception:
    import pkg_resources

    RELEASE = "nova " + pkg_resources.get_distribution("nova").version

CONF = nova.conf.CONF
NS = uuidlib.UUID("6f1d1f6e-0000-4000-8000-000000000000")

# weigher class name -> (group, option) that holds its multiplier
WEIGHER_OPTS = {
    "RAMWeigher": ("filter_scheduler", "ram_weight_multiplier"),
    "CPUWeigher": ("filter_scheduler", "cpu_weight_multiplier"),
    "DiskWeigher": ("filter_scheduler", "disk_weight_multiplier"),
    "IoOpsWeigher": ("filter_scheduler", "io_ops_weight_multiplier"),
    "PCIWeigher": ("filter_scheduler", "pci_weight_multiplier"),
    "NumInstancesWeigher": ("filter_scheduler", "num_instances_weight_multiplier"),
    "HypervisorVersionWeigher": ("filter_scheduler", "hypervisor_version_weight_multiplier"),
    "ImagePropertiesWeigher": ("filter_scheduler", "image_props_weight_multiplier"),
    "ServerGroupSoftAffinityWeigher": ("filter_scheduler", "soft_affinity_weight_multiplier"),
    "ServerGroupSoftAntiAffinityWeigher": ("filter_scheduler", "soft_anti_affinity_weight_multiplier"),
    "BuildFailureWeigher": ("filter_scheduler", "build_failure_weight_multiplier"),
    "CrossCellWeigher": ("filter_scheduler", "cross_cell_move_weight_multiplier"),
    "MetricsWeigher": ("metrics", "weight_multiplier"),
}


def setup():
    """Read no configuration file; log errors only."""
    CONF([], project="nova", default_config_files=[])
    objects.register_all()
    logging.getLogger().setLevel(logging.ERROR)
    for name in ("nova", "oslo", "oslo_messaging", "oslo_config"):
        logging.getLogger(name).setLevel(logging.ERROR)


def uid(*parts):
    """A stable uuid for a name."""
    return str(uuidlib.uuid5(NS, ":".join(str(p) for p in parts)))


def utcnow():
    return datetime.datetime.utcnow()


def _has(cls, field):
    return field in cls.fields


# --------------------------------------------------------------------------
# hosts


def numa_topology(spec):
    """Host NUMA topology object out of {"cells": [...]} (or None)."""
    if not spec:
        return None
    cells = []
    for c in spec["cells"]:
        kw = {
            "id": c["id"],
            "cpuset": set(c.get("cpuset", [])),
            "memory": c["memory"],
            "cpu_usage": c.get("cpu_usage", 0),
            "memory_usage": c.get("memory_usage", 0),
            "pinned_cpus": set(c.get("pinned_cpus", [])),
            "siblings": [set(s) for s in c.get("siblings", [])],
            "mempages": [
                objects.NUMAPagesTopology(
                    size_kb=p["size_kb"],
                    total=p["total"],
                    used=p.get("used", 0),
                    **({"reserved": p.get("reserved", 0)} if _has(objects.NUMAPagesTopology, "reserved") else {}),
                )
                for p in c.get("mempages", [])
            ],
        }
        if _has(objects.NUMACell, "pcpuset"):
            kw["pcpuset"] = set(c.get("pcpuset", []))
        if _has(objects.NUMACell, "socket"):
            kw["socket"] = c.get("socket")
        if _has(objects.NUMACell, "network_metadata"):
            kw["network_metadata"] = objects.NetworkMetadata(
                physnets=set(c.get("physnets", [])), tunneled=bool(c.get("tunneled", False))
            )
        cells.append(objects.NUMACell(**kw))
    return objects.NUMATopology(cells=cells)


def pci_pools(pools):
    return objects.PciDevicePoolList(objects=[objects.PciDevicePool.from_dict(dict(p)) for p in pools or []])


def aggregate(a):
    kw = {"name": a["name"], "metadata": dict(a.get("metadata") or {}), "hosts": list(a.get("hosts") or [])}
    if "id" in a:
        kw["id"] = a["id"]
    if _has(objects.Aggregate, "uuid"):
        kw["uuid"] = a.get("uuid") or uid("agg", a["name"])
    return objects.Aggregate(**kw)


def service_dict(h, now=None):
    """What HostState.service holds: a dict of the Service record."""
    s = h.get("service") or {}
    now = now or utcnow()
    seen = s.get("seconds_since_seen")
    if seen is None:
        seen = 0 if s.get("up", True) else 100000
    at = now - datetime.timedelta(seconds=seen)
    return {
        "host": h["host"],
        "binary": "nova-compute",
        "topic": "compute",
        "disabled": bool(s.get("disabled", False)),
        "disabled_reason": s.get("disabled_reason"),
        "forced_down": bool(s.get("forced_down", False)),
        "report_count": 1,
        "id": 1,
        "last_seen_up": at,
        "updated_at": at,
        "created_at": now - datetime.timedelta(days=30),
    }


def compute_node(h):
    """A real ComputeNode object for the host."""
    stats = {str(k): None if v is None else str(v) for k, v in (h.get("stats") or {}).items()}
    stats.setdefault("num_instances", str(h.get("num_instances", 0)))
    stats.setdefault("io_workload", str(h.get("num_io_ops", 0)))
    stats.setdefault("failed_builds", str(h.get("failed_builds", 0)))
    free_disk_gb = int(h.get("free_disk_mb", 0)) // 1024
    local_gb = int(h.get("total_usable_disk_gb", max(free_disk_gb, 0)))
    cpu_info = h.get("cpu_info")
    if cpu_info is not None and not isinstance(cpu_info, str):
        cpu_info = json.dumps(cpu_info)
    topo = numa_topology(h.get("numa"))
    metrics = None
    if h.get("metrics") is not None:
        metrics = json.dumps(
            [
                {
                    "name": m["name"],
                    "value": m["value"],
                    "timestamp": m.get("timestamp", "2026-01-01T00:00:00.000000"),
                    "source": m.get("source", "case"),
                    "numa_membw_values": None,
                }
                for m in h["metrics"]
            ]
        )
    return objects.ComputeNode(
        id=1,
        uuid=h.get("uuid") or uid("cn", h["host"], h.get("node")),
        host=h["host"],
        hypervisor_hostname=h.get("node") or h["host"],
        vcpus=h.get("vcpus_total", 0),
        vcpus_used=h.get("vcpus_used", 0),
        memory_mb=h.get("total_usable_ram_mb", 0),
        memory_mb_used=(h.get("total_usable_ram_mb", 0) - h.get("free_ram_mb", 0)),
        free_ram_mb=h.get("free_ram_mb", 0),
        local_gb=local_gb,
        local_gb_used=max(local_gb - free_disk_gb, 0),
        free_disk_gb=free_disk_gb,
        disk_available_least=None,
        hypervisor_type=h.get("hypervisor_type", "QEMU"),
        hypervisor_version=h.get("hypervisor_version", 0) or 0,
        cpu_info=cpu_info,
        host_ip=h.get("host_ip", "10.0.0.1"),
        running_vms=h.get("num_instances", 0),
        stats=stats,
        metrics=metrics or "[]",
        numa_topology=topo._to_json() if topo else None,
        supported_hv_specs=[objects.HVSpec.from_list(list(x)) for x in (h.get("supported_instances") or [])],
        pci_device_pools=pci_pools(h.get("pci_pools")),
        cpu_allocation_ratio=h.get("cpu_allocation_ratio", 16.0),
        ram_allocation_ratio=h.get("ram_allocation_ratio", 1.5),
        disk_allocation_ratio=h.get("disk_allocation_ratio", 1.0),
        updated_at=None,
    )


def instance(i, host=None):
    if not isinstance(i, dict):
        i = {"uuid": i}
    inst = objects.Instance(uuid=i["uuid"], image_ref="")
    if host:
        inst.host = host
    props = i.get("image_props")
    # system_metadata is where Instance.image_meta is read from
    inst.system_metadata = {"image_" + k: str(v) for k, v in (props or {}).items()}
    inst.obj_reset_changes()
    return inst


def host_state(h, now=None):
    """A real HostState, filled through the real HostState.update()."""
    cell = uid("cell", h.get("cell", "cell1"))
    node = h.get("node") or h["host"]
    try:
        hs = nova_hm.HostState(h["host"], node, cell)
    except TypeError:
        hs = nova_hm.HostState(h["host"], node)
    insts = OrderedDict()
    for i in h.get("instances") or []:
        obj = instance(i, h["host"])
        insts[obj.uuid] = obj
    aggs = [aggregate(a) for a in h.get("aggregates") or []]
    hs.update(compute_node(h), service_dict(h, now), aggs, insts)
    # Not every value survives the ComputeNode's units, so state them exactly.
    for k in (
        "free_disk_mb",
        "free_ram_mb",
        "total_usable_ram_mb",
        "vcpus_total",
        "vcpus_used",
        "num_instances",
        "num_io_ops",
        "failed_builds",
        "hypervisor_type",
        "hypervisor_version",
    ):
        if k in h:
            setattr(hs, k, h[k])
    if "metrics" in h and h["metrics"] is None:
        hs.metrics = None
    if h.get("cpu_info_is_dict") and isinstance(h.get("cpu_info"), dict):
        hs.cpu_info = h["cpu_info"]
    if "disk_mb_used" in h:
        hs.disk_mb_used = h["disk_mb_used"]
    hs.allocation_candidates = [dict(c) for c in h.get("allocation_candidates", [{"mappings": {}}])]
    return hs


# --------------------------------------------------------------------------
# request


def flavor(f):
    f = f or {}
    return objects.Flavor(
        id=f.get("id", 1),
        name=f.get("name", "m1.small"),
        flavorid=str(f.get("flavorid", f.get("id", 1))),
        vcpus=f.get("vcpus", 1),
        memory_mb=f.get("memory_mb", 512),
        root_gb=f.get("root_gb", 0),
        ephemeral_gb=f.get("ephemeral_gb", 0),
        swap=f.get("swap", 0),
        rxtx_factor=1.0,
        vcpu_weight=0,
        disabled=False,
        is_public=True,
        extra_specs={k: str(v) for k, v in (f.get("extra_specs") or {}).items()},
    )


def image_meta(i):
    if i is None:
        return None
    d = {"properties": dict(i.get("properties") or {})}
    for k in (
        "id",
        "name",
        "status",
        "disk_format",
        "container_format",
        "min_ram",
        "min_disk",
        "size",
        "checksum",
        "owner",
    ):
        if k in i:
            d[k] = i[k]
    return objects.ImageMeta.from_dict(d)


def instance_numa(n, fl, img):
    if n is None:
        return None
    if n == "auto":
        return hardware.numa_get_constraints(fl, img or objects.ImageMeta.from_dict({"properties": {}}))
    cells = []
    for c in n["cells"]:
        kw = {
            "id": c["id"],
            "cpuset": set(c.get("cpuset", [])),
            "memory": c["memory"],
            "pagesize": c.get("pagesize"),
            "cpu_policy": c.get("cpu_policy"),
            "cpu_thread_policy": c.get("cpu_thread_policy"),
        }
        if _has(objects.InstanceNUMACell, "pcpuset"):
            kw["pcpuset"] = set(c.get("pcpuset", []))
        cells.append(objects.InstanceNUMACell(**kw))
    kw = {}
    if n.get("emulator_threads_policy"):
        kw["emulator_threads_policy"] = n["emulator_threads_policy"]
    return objects.InstanceNUMATopology(cells=cells, **kw)


def request_spec(r):
    fl = flavor(r.get("flavor"))
    img = image_meta(r.get("image"))
    iuuid = r.get("instance_uuid") or uid("inst", "default")
    pci = [
        objects.InstancePCIRequest(
            count=p.get("count", 1),
            spec=[{k: str(v) for k, v in s.items()} for s in p["spec"]],
            alias_name=p.get("alias_name", "alias"),
            is_new=False,
            request_id=p.get("request_id") or uid("pcireq", i),
            **({"numa_policy": p.get("numa_policy")} if _has(objects.InstancePCIRequest, "numa_policy") else {}),
        )
        for i, p in enumerate(r.get("pci_requests") or [])
    ]
    kw = {
        "num_instances": r.get("num_instances", 1),
        "instance_uuid": iuuid,
        "project_id": r.get("project_id"),
        "availability_zone": r.get("availability_zone"),
        "flavor": fl,
        "image": img,
        "ignore_hosts": r.get("ignore_hosts"),
        "force_hosts": r.get("force_hosts"),
        "force_nodes": r.get("force_nodes"),
        "scheduler_hints": {
            k: [str(x) for x in (v if isinstance(v, list) else [v])]
            for k, v in (r.get("scheduler_hints") or {}).items()
        },
        "numa_topology": instance_numa(r.get("numa_topology"), fl, img),
        "pci_requests": objects.InstancePCIRequests(instance_uuid=iuuid, requests=pci),
        "limits": objects.SchedulerLimits(),
        "retry": None,
        "instance_group": None,
        "requested_destination": None,
    }
    newer = {"user_id": r.get("user_id"), "is_bfv": False, "requested_resources": []}
    kw.update({k: v for k, v in newer.items() if _has(objects.RequestSpec, k)})
    if _has(objects.RequestSpec, "security_groups"):
        kw["security_groups"] = objects.SecurityGroupList(objects=[])
    if _has(objects.RequestSpec, "request_level_params"):
        kw["request_level_params"] = objects.RequestLevelParams()
    spec = objects.RequestSpec(**kw)
    if r.get("retry"):
        spec.retry = objects.SchedulerRetries(
            num_attempts=r["retry"].get("num_attempts", 1),
            hosts=objects.ComputeNodeList(
                objects=[objects.ComputeNode(host=h, hypervisor_hostname=n) for h, n in r["retry"].get("hosts", [])]
            ),
        )
    g = r.get("group")
    if g:
        gkw = {
            "uuid": g.get("uuid") or uid("group", "g"),
            "name": "g",
            "hosts": list(g.get("hosts") or []),
            "members": list(g.get("members") or []),
        }
        if _has(objects.InstanceGroup, "policy"):
            gkw["policy"] = g["policy"]
            if g.get("rules"):
                gkw["rules"] = {k: str(v) for k, v in g["rules"].items()}
            else:
                gkw["rules"] = {}
        gkw["policies"] = [g["policy"]]
        try:
            spec.instance_group = objects.InstanceGroup(**gkw)
        except Exception:
            gkw.pop("policies")
            spec.instance_group = objects.InstanceGroup(**gkw)
        spec.instance_group.obj_reset_changes()
    d = r.get("requested_destination")
    if d:
        dkw = {}
        for k in ("host", "node"):
            if k in d:
                dkw[k] = d[k]
        if "cell" in d:
            dkw["cell"] = objects.CellMapping(uuid=uid("cell", d["cell"]), name=d["cell"])
        if _has(objects.Destination, "allow_cross_cell_move"):
            dkw["allow_cross_cell_move"] = bool(d.get("allow_cross_cell_move", False))
        if "host" in dkw and "node" not in dkw:
            dkw["node"] = None
        spec.requested_destination = objects.Destination(**dkw)
    return spec


# --------------------------------------------------------------------------
# config, host manager


def clear_options():
    for group, opt in list(_OVERRIDDEN):
        CONF.clear_override(opt, group=group)
    _OVERRIDDEN.clear()


_OVERRIDDEN = set()


def set_option(name, value):
    """name: 'opt' ([filter_scheduler]opt), 'group.opt' or 'DEFAULT.opt'."""
    group = "filter_scheduler"
    if "." in name:
        group, name = name.split(".", 1)
    if group == "DEFAULT":
        group = None
    CONF.set_override(name, value, group=group)
    _OVERRIDDEN.add((group, name))


def cell_mapping(name="cell1"):
    return objects.CellMapping(
        uuid=uid("cell", name), name=name, disabled=False, database_connection="none:///", transport_url="none:///"
    )


class _NoDBHostManager(nova_hm.HostManager):
    """The real HostManager; only the three start-up database reads are
    replaced."""

    def refresh_cells_caches(self):
        c = cell_mapping()
        self.cells = {c.uuid: c}
        self.enabled_cells = [c]
        self.host_to_cell_uuid = {}

    def _init_aggregates(self):
        pass

    def _init_instance_info(self, computes_by_cell=None):
        pass


_CLS_CACHE = {}


def host_manager(filters=None, weighers=None):
    """A real HostManager with the given filters, and the weighers in the
    given order (None: nova's defaults)."""
    if filters is not None:
        set_option("enabled_filters", list(filters))
    hm = _NoDBHostManager()
    if weighers is not None:
        if "w" not in _CLS_CACHE:
            _CLS_CACHE["w"] = {c.__name__: c for c in hm.weight_handler.get_all_classes()}
        hm.weighers = [_CLS_CACHE["w"][n]() for n in weighers]
    return hm


def context():
    return nova_context.RequestContext("user", "project", is_admin=True)


def scheduler_class():
    """The class that has _legacy_find_hosts: SchedulerManager, or the
    FilterScheduler of older releases."""
    from nova.scheduler import manager

    if hasattr(manager.SchedulerManager, "_legacy_find_hosts"):
        return manager.SchedulerManager
    from nova.scheduler import filter_scheduler

    return filter_scheduler.FilterScheduler
