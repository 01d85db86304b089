#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates seeded random cases, one per line on stdout, in the format of tests/conformance/FORMAT.md.

    gen_cases.py [-n 1000] [--seed 1] [--hosts 12] [--focus FILTER_OR_WEIGHER] [--rocky]

--rocky makes cases for nova 18.3.0 (Rocky), which still has the Ram, Core, Disk, Retry and AvailabilityZone filters
of that release. Every filter and weigher of nova 34 occurs; case number i is biased towards the i-th name in FOCI, so
each gets an equal share. Equal seeds give equal bytes: this script made the recorded cases, so that a change in the
order of the draws changes all of them. Standard library only.
"""

import argparse
import json
import random
import uuid

FILTERS = [
    "AllHostsFilter",
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "DifferentHostFilter",
    "SameHostFilter",
    "SimpleCIDRAffinityFilter",
    "AggregateImagePropertiesIsolation",
    "AggregateInstanceExtraSpecsFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateTypeAffinityFilter",
    "IoOpsFilter",
    "AggregateIoOpsFilter",
    "NumInstancesFilter",
    "AggregateNumInstancesFilter",
    "IsolatedHostsFilter",
    "JsonFilter",
    "MetricsFilter",
    "NUMATopologyFilter",
    "PciPassthroughFilter",
]
WEIGHERS = [
    "RAMWeigher",
    "CPUWeigher",
    "DiskWeigher",
    "IoOpsWeigher",
    "PCIWeigher",
    "NumInstancesWeigher",
    "HypervisorVersionWeigher",
    "ImagePropertiesWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
    "BuildFailureWeigher",
    "CrossCellWeigher",
    "MetricsWeigher",
]
FOCI = FILTERS + WEIGHERS + ["force/ignore/destination", "rebuild", "multi-create"]
ROCKY_FILTERS = [
    "RamFilter",
    "AggregateRamFilter",
    "CoreFilter",
    "AggregateCoreFilter",
    "DiskFilter",
    "AggregateDiskFilter",
    "RetryFilter",
    "AvailabilityZoneFilter",
]
NOT_IN_ROCKY = ["NumInstancesWeigher", "HypervisorVersionWeigher", "ImagePropertiesWeigher", "CrossCellWeigher"]
MULT = {
    "RAMWeigher": "ram_weight_multiplier",
    "CPUWeigher": "cpu_weight_multiplier",
    "DiskWeigher": "disk_weight_multiplier",
    "IoOpsWeigher": "io_ops_weight_multiplier",
    "PCIWeigher": "pci_weight_multiplier",
    "NumInstancesWeigher": "num_instances_weight_multiplier",
    "HypervisorVersionWeigher": "hypervisor_version_weight_multiplier",
    "ImagePropertiesWeigher": "image_props_weight_multiplier",
    "ServerGroupSoftAffinityWeigher": "soft_affinity_weight_multiplier",
    "ServerGroupSoftAntiAffinityWeigher": "soft_anti_affinity_weight_multiplier",
    "BuildFailureWeigher": "build_failure_weight_multiplier",
    "CrossCellWeigher": "cross_cell_move_weight_multiplier",
    "MetricsWeigher": "metrics_weight_multiplier",
}
METRICS = ["cpu.frequency", "cpu.user.percent", "cpu.idle.percent", "cpu.iowait.percent"]
HV = [
    ("QEMU", [["x86_64", "kvm", "hvm"], ["i686", "qemu", "hvm"]], 2012000),
    ("QEMU", [["aarch64", "kvm", "hvm"]], 6002000),
    ("VMware vCenter Server", [["i686", "vmware", "hvm"], ["x86_64", "vmware", "hvm"]], 7000003),
    ("ironic", [["x86_64", "baremetal", "hvm"]], 1),
    ("XenServer", [["x86_64", "xen", "xen"], ["x86_64", "xen", "hvm"]], 6000000),
    ("QEMU", [], 8000000),
]
PROJECTS = ["p-red", "p-green", "p-blue"]
OSES = ["ubuntu", "rhel", "windows", "debian"]
FLAVORS = ["m1.tiny", "m1.small", "m1.large", "c5.huge"]
NSU = uuid.UUID("00000000-0000-4000-8000-00000000feed")


def u(*a):
    """A stable uuid for a name."""
    return str(uuid.uuid5(NSU, ":".join(map(str, a))))


def maybe(r, p):
    return r.random() < p


def agg_metadata(r, focus):
    md = {}
    if maybe(r, 0.4):
        md["availability_zone"] = r.choice(["az1", "az2", "az3"])
    p = lambda f, d=0.08: 0.6 if focus == f else d  # noqa: E731
    if maybe(r, p("AggregateInstanceExtraSpecsFilter", 0.15)):
        md["ssd"] = r.choice(["true", "false", "true,false", "TRUE"])
    if maybe(r, p("AggregateInstanceExtraSpecsFilter", 0.15)):
        md["tier"] = r.choice(["1", "2", "3", "1, 3", "gold"])
    if maybe(r, p("AggregateMultiTenancyIsolation")):
        md[r.choice(["filter_tenant_id", "filter_tenant_id1", "filter_tenant_id_x"])] = r.choice(
            [*PROJECTS, ",".join(PROJECTS[:2]), "p-red, p-blue"]
        )
    if maybe(r, p("AggregateTypeAffinityFilter")):
        md["instance_type"] = r.choice([*FLAVORS, "m1.tiny,m1.small", " c5.huge , m1.large"])
    if maybe(r, p("AggregateIoOpsFilter")):
        md["max_io_ops_per_host"] = r.choice(["2", "5", "9", "many", "0"])
    if maybe(r, p("AggregateNumInstancesFilter")):
        md["max_instances_per_host"] = r.choice(["3", "10", "40", "x", "0"])
    if maybe(r, p("AggregateImagePropertiesIsolation")):
        k = r.choice(["os_distro", "hw_architecture", "os_type", "ns.os_type", "hw_vm_mode", "os_distro"])
        md[k] = {
            "os_distro": r.choice([*OSES, "ubuntu,rhel"]),
            "hw_architecture": r.choice(["x86_64", "aarch64"]),
            "hw_vm_mode": "hvm",
        }.get(k, r.choice(["linux", "windows", "windows,linux"]))
    if focus in MULT and maybe(r, 0.5):
        md[MULT[focus]] = r.choice(["0", "2.5", "-1", "10", "abc", "1e3"])
    elif maybe(r, 0.05):
        md[r.choice(list(MULT.values()))] = r.choice(["0", "2.5", "-1"])
    return md


def numa_host(r):
    ncells = r.choice([1, 2, 2, 4])
    per = r.choice([4, 8])
    smt = maybe(r, 0.5)
    cells = []
    for i in range(ncells):
        cpus = list(range(i * per, (i + 1) * per))
        sib = [[cpus[j], cpus[j + 1]] for j in range(0, per, 2)] if smt else [[c] for c in cpus]
        mode = r.choice(["shared", "dedicated", "split"])
        shared = {"shared": cpus, "dedicated": [], "split": cpus[: per // 2]}
        ded = [c for c in cpus if c not in shared[mode]]
        mem = r.choice([2048, 4096, 8192])
        used = r.choice([0, 0, 512, 1024])
        cell = {
            "id": i,
            "cpuset": shared[mode],
            "pcpuset": ded,
            "memory": mem,
            "memory_usage": used,
            "cpu_usage": r.randint(0, 4),
            "pinned_cpus": sorted(r.sample(ded, r.randint(0, len(ded) // 2))) if ded else [],
            "siblings": sib,
            "socket": i // 2,
            "mempages": [
                {"size_kb": 4, "total": (mem - 1024) * 256, "used": min(used, mem - 1024) * 256 // 2},
                {"size_kb": 2048, "total": 512, "used": r.choice([0, 0, 100, 512])},
            ],
        }
        if maybe(r, 0.2):
            cell["mempages"].append({"size_kb": 1048576, "total": 2, "used": r.randint(0, 2)})
        cells.append(cell)
    return {"cells": cells}


def pci_pools(r, numa):
    pools = []
    for vend, prod, tags in r.sample(
        [
            ("8086", "1520", {}),
            ("8086", "10fb", {"physical_network": "net1"}),
            ("10de", "13f2", {}),
            ("10de", "1eb8", {"capability": "gpu"}),
            ("8086", "154c", {"dev_type": "type-VF"}),
        ],
        r.randint(1, 3),
    ):
        for node in (
            [None]
            if not numa or maybe(r, 0.3)
            else r.sample([c["id"] for c in numa["cells"]], min(len(numa["cells"]), r.randint(1, 2)))
        ):
            d = {"vendor_id": vend, "product_id": prod, "numa_node": node, "count": r.randint(0, 6)}
            d.setdefault("dev_type", "type-PCI")
            d.update(tags)
            pools.append(d)
    return pools


def gen_host(r, i, aggs, focus, members):
    hv, supp, ver = (
        r.choice(HV)
        if focus in ("ImagePropertiesFilter", "HypervisorVersionWeigher", "ComputeCapabilitiesFilter")
        or maybe(r, 0.5)
        else HV[0]
    )
    ram = r.choice([8192, 16384, 65536, 131072])
    cpus = r.choice([4, 8, 16, 32, 64])
    disk = r.choice([100, 500, 2000])
    full = maybe(r, 0.15)
    free = r.randint(-2048, 256) if full else r.randint(0, ram)
    h = {
        "host": f"host{i:03d}",
        "node": f"host{i:03d}",
        "cell": r.choice(["cell1", "cell1", "cell2"]),
        "total_usable_ram_mb": ram,
        "free_ram_mb": free,
        "total_usable_disk_gb": disk,
        "free_disk_mb": r.choice([0, r.randint(0, disk) * 1024, r.randint(0, disk * 1024), -5120]),
        "vcpus_total": cpus,
        "vcpus_used": r.randint(0, cpus * 2),
        "ram_allocation_ratio": r.choice([1.0, 1.5]),
        "cpu_allocation_ratio": r.choice([1.0, 4.0, 16.0]),
        "disk_allocation_ratio": r.choice([1.0, 1.2]),
        "num_instances": r.choice([0, 1, 3, 10, 39, 50, 60]),
        "num_io_ops": r.choice([0, 0, 1, 2, 5, 7, 8, 9, 12]),
        "failed_builds": r.choice([0, 0, 0, 1, 4]),
        "hypervisor_type": hv,
        "hypervisor_version": ver + r.choice([0, 0, 1000, 2]),
        "supported_instances": supp,
        "host_ip": f"10.{r.randint(0, 1)}.{r.randint(0, 3)}.{r.randint(1, 250)}",
        "cpu_info": r.choice(
            [
                None,
                {
                    "arch": "x86_64",
                    "model": "Nehalem",
                    "vendor": "Intel",
                    "topology": {"cores": r.choice([2, 4]), "threads": 1, "sockets": r.choice([1, 4])},
                    "features": r.sample(["pge", "avx", "vmx", "sse4.2"], 2),
                },
                {"arch": "aarch64", "topology": {"cores": 8}},
            ]
        ),
        "stats": {},
        "service": {"disabled": maybe(r, 0.1), "up": not maybe(r, 0.1), "forced_down": maybe(r, 0.03)},
        "aggregates": r.sample(aggs, r.randint(0, min(3, len(aggs)))),
        "metrics": None,
        "instances": [],
    }
    if focus == "ComputeFilter" and maybe(r, 0.4):
        h["service"] = {
            "disabled": maybe(r, 0.3),
            "forced_down": False,
            "seconds_since_seen": r.choice([0, 30, 90, 3600]),
        }
    if maybe(r, 0.3):
        h["stats"] = {r.choice(["ssd", "gpu", "tier", "opt1"]): r.choice(["true", "1", "3", "gold", "a b c"])}
    h["metrics"] = [{"name": m, "value": r.randint(0, 1000)} for m in METRICS if maybe(r, 0.8)]
    for k in range(r.randint(0, 3)):
        h["instances"].append(
            {
                "uuid": u("inst", i, k),
                "image_props": r.choice(
                    [
                        {},
                        {"os_distro": r.choice(OSES)},
                        {
                            "os_distro": r.choice(OSES),
                            "hw_architecture": "x86_64",
                            "os_type": r.choice(["linux", "windows"]),
                        },
                    ]
                ),
            }
        )
    for m in members:
        if maybe(r, 0.2):
            h["instances"].append({"uuid": m, "image_props": {}})
    if (focus in ("NUMATopologyFilter",) and maybe(r, 0.85)) or maybe(r, 0.15):
        h["numa"] = numa_host(r)
    if (focus in ("PciPassthroughFilter", "PCIWeigher") and maybe(r, 0.8)) or maybe(r, 0.2):
        h["pci_pools"] = pci_pools(r, h.get("numa"))
    if maybe(r, 0.04):
        h["node"] = h["host"] + "-n1"
    # nova allows a host one availability zone only
    az, keep = None, []
    for a in h["aggregates"]:
        z = a["metadata"].get("availability_zone")
        if z and az and z != az:
            continue
        az = az or z
        keep.append(a)
    h["aggregates"] = keep
    return h


OPS = [
    ("=", "n"),
    (">=", "n"),
    ("<=", "n"),
    ("==", "n"),
    ("!=", "n"),
    ("s==", "s"),
    ("s!=", "s"),
    ("s<", "s"),
    ("s>=", "s"),
    ("s<=", "s"),
    ("s>", "s"),
    ("<in>", "s"),
    ("<all-in>", "l"),
    ("<or>", "o"),
    ("", "s"),
]


def opval(r, nums, strs):
    op, kind = r.choice(OPS)
    if kind == "n":
        return f"{op} {r.choice(nums)}"
    if kind == "l":
        return "{} {}".format(op, " ".join(r.sample(strs, min(2, len(strs)))))
    if kind == "o":
        return " ".join(f"<or> {s}" for s in r.sample(strs, min(2, len(strs))))
    return f"{op} {r.choice(strs)}".strip()


def json_query(r):
    leafs = [
        [">=", "$free_ram_mb", r.choice([512, 4096, 30000])],
        [">", "$free_disk_mb", r.choice([0, 50 * 1024, 900 * 1024])],
        ["<", "$num_instances", r.choice([1, 11, 60])],
        ["<=", "$num_io_ops", r.choice([0, 5, 8])],
        ["=", "$hypervisor_type", "QEMU"],
        ["in", "$host", "host000", "host003", "host005", "host007"],
        ["=", "$nosuch", 1],
        ["=", "$service.disabled", False],
    ]
    a = r.choice(leafs)
    if maybe(r, 0.4):
        return a
    b = r.choice(leafs)
    q = [r.choice(["and", "or"]), a, b]
    if maybe(r, 0.3):
        q = ["not", q]
    return q


def gen_request(r, focus, hosts, members):
    inst = u("new", r.random())
    fl = {
        "id": r.randint(1, 9),
        "name": r.choice(FLAVORS),
        "vcpus": r.choice([1, 2, 4]),
        "memory_mb": r.choice([512, 1024, 4096]),
        "root_gb": r.choice([0, 1, 20]),
        "ephemeral_gb": r.choice([0, 0, 5]),
        "swap": 0,
        "extra_specs": {},
    }
    es = fl["extra_specs"]
    if focus == "ComputeCapabilitiesFilter":
        for _ in range(r.randint(1, 2)):
            k, nums, strs = r.choice(
                [
                    ("capabilities:hypervisor_type", [1], ["QEMU", "ironic"]),
                    ("capabilities:hypervisor_version", [2012000, 6002000, 7000000], ["2012000"]),
                    ("capabilities:cpu_info:topology:cores", [2, 4, 8], ["2", "4"]),
                    ("capabilities:cpu_info:arch", [1], ["x86_64", "aarch64"]),
                    ("capabilities:cpu_info:features", [1], ["avx", "pge"]),
                    ("hypervisor_type", [1], ["QEMU"]),
                    ("free_ram_mb", [1000, 20000], ["4096"]),
                    ("capabilities:vcpus_total", [8, 16], ["8"]),
                    ("ssd", [1], ["true"]),
                    ("capabilities:tier", [1, 3], ["gold", "3"]),
                    ("trait:HW_CPU", [1], ["required"]),
                    ("nosuchkey", [1], ["x"]),
                ]
            )
            v = opval(r, nums, strs)
            # numeric operators against text raise ValueError: keep them rare
            is_text = strs[0] in ("QEMU", "x86_64", "avx", "true")
            if is_text and v.split()[0] in ("=", "==", "!=", ">=", "<=") and not maybe(r, 0.05):
                v = r.choice(strs)
            es[k] = v
    if focus == "AggregateInstanceExtraSpecsFilter":
        for _ in range(r.randint(1, 2)):
            k, v = r.choice(
                [("ssd", "true"), ("tier", opval(r, [1], ["1", "3", "gold"])), ("ssd", "<or> true <or> TRUE")]
            )
            if v.split()[0] in ("=", "==", "!=", ">=", "<="):
                v = "1"
            es[r.choice(["", "aggregate_instance_extra_specs:"]) + k] = v
        if maybe(r, 0.2):
            es["hw:cpu_policy"] = "shared"
    props = {}
    p = 0.7 if focus == "ImagePropertiesFilter" else 0.12
    if maybe(r, p):
        props["hw_architecture"] = r.choice(["x86_64", "i686", "aarch64"])
    if maybe(r, p):
        props["img_hv_type"] = r.choice(["kvm", "vmware", "xen", "qemu", "baremetal"])
    if maybe(r, p / 2):
        props["hw_vm_mode"] = r.choice(["hvm", "xen"])
    if maybe(r, p / 3):
        props["img_hv_requested_version"] = r.choice([">=2.0", ">=6.0,<7.0", "==7.0.3", "<3.0"])
    if maybe(r, 0.9 if focus in ("ImagePropertiesWeigher", "AggregateImagePropertiesIsolation") else 0.2):
        props["os_distro"] = r.choice(OSES[:2])
        if maybe(r, 0.7):
            props["os_type"] = r.choice(["linux", "windows"])
    image = {"id": u("image", r.randint(0, 3)), "properties": props}
    if focus not in ("NUMATopologyFilter",) and maybe(r, 0.03):
        image = None
    q = {
        "instance_uuid": inst,
        "project_id": r.choice(PROJECTS),
        "user_id": "user1",
        "availability_zone": None,
        "flavor": fl,
        "image": image,
        "num_instances": 1,
        "scheduler_hints": {},
        "ignore_hosts": None,
        "force_hosts": None,
        "force_nodes": None,
        "group": None,
        "requested_destination": None,
        "pci_requests": [],
        "numa_topology": None,
    }
    hints = q["scheduler_hints"]
    allinst = [i["uuid"] for h in hosts for i in h["instances"]] or [inst]
    if focus == "DifferentHostFilter":
        hints["different_host"] = r.sample(allinst, min(3, len(allinst)))
    if focus == "SameHostFilter":
        hints["same_host"] = r.sample(allinst, min(2, len(allinst)))
    if focus == "SimpleCIDRAffinityFilter":
        hints["build_near_host_ip"] = [r.choice(hosts)["host_ip"]]
        if maybe(r, 0.7):
            hints["cidr"] = [r.choice(["/24", "/16", "/23", "/8", "/32"])]
    if focus == "JsonFilter":
        hints["query"] = [json.dumps(json_query(r))]
    groupp = {
        "ServerGroupAntiAffinityFilter": "anti-affinity",
        "ServerGroupAffinityFilter": "affinity",
        "ServerGroupSoftAffinityWeigher": "soft-affinity",
        "ServerGroupSoftAntiAffinityWeigher": "soft-anti-affinity",
    }
    if focus in groupp or maybe(r, 0.1):
        pol = groupp.get(focus) or r.choice(list(groupp.values()))
        q["group"] = {
            "policy": pol,
            "members": members,
            "hosts": sorted({h["host"] for h in hosts for i in h["instances"] if i["uuid"] in members})
            if maybe(r, 0.8)
            else [],
        }
        if pol == "anti-affinity" and maybe(r, 0.4):
            q["group"]["rules"] = {"max_server_per_host": r.randint(1, 3)}
    if focus == "CrossCellWeigher":
        q["requested_destination"] = {"cell": r.choice(["cell1", "cell2"]), "allow_cross_cell_move": maybe(r, 0.7)}
    if focus in ("PciPassthroughFilter", "PCIWeigher") and maybe(r, 0.85):
        for _ in range(r.randint(1, 2)):
            q["pci_requests"].append(
                {
                    "count": r.randint(1, 3),
                    "spec": [
                        r.choice(
                            [
                                {"vendor_id": "8086", "product_id": "1520"},
                                {"vendor_id": "10de"},
                                {"vendor_id": "8086"},
                                {"product_id": "10fb", "physical_network": "net1"},
                                {"vendor_id": "10de", "capability": "gpu"},
                                {"vendor_id": "8086", "dev_type": "type-VF"},
                            ]
                        )
                    ],
                    "numa_policy": r.choice([None, "legacy", "preferred", "required", "socket"]),
                }
            )
            if q["pci_requests"][-1]["numa_policy"] == "socket":
                q["pci_requests"][-1]["numa_policy"] = None
    if focus == "NUMATopologyFilter":
        k = r.choice(["nodes", "pin", "pages", "pinthread", "manual"])
        if k == "nodes":
            es["hw:numa_nodes"] = str(r.choice([1, 1, 2]))
            fl["vcpus"] = r.choice([2, 4])
        elif k == "pin":
            es["hw:cpu_policy"] = "dedicated"
        elif k == "pinthread":
            es["hw:cpu_policy"] = "dedicated"
            es["hw:cpu_thread_policy"] = r.choice(["prefer", "isolate", "require"])
        elif k == "pages":
            es["hw:mem_page_size"] = r.choice(["small", "large", "2048", "any", "1048576"])
        else:
            es["hw:numa_nodes"] = "2"
            fl["vcpus"] = 4
            fl["memory_mb"] = 1024
            es.update(
                {"hw:numa_cpus.0": "0,1,2", "hw:numa_cpus.1": "3", "hw:numa_mem.0": "768", "hw:numa_mem.1": "256"}
            )
        q["numa_topology"] = "auto"
    names = [h["host"] for h in hosts]
    if focus == "force/ignore/destination":
        k = r.choice(["force", "forcenode", "ignore", "dest", "destnode", "both", "forcecheck", "case"])
        if k in ("force", "both", "forcecheck"):
            q["force_hosts"] = r.sample(names, 1)
        if k == "case":
            q["force_hosts"] = [r.choice(names).upper()]
            q["ignore_hosts"] = [r.choice(names).upper()]
        if k == "forcecheck":
            hints["_nova_check_type"] = [r.choice(["rebuild", "evacuate"])]
        if k == "forcenode":
            q["force_nodes"] = [r.choice(hosts)["node"]]
        if k in ("ignore", "both"):
            q["ignore_hosts"] = r.sample(names, 2)
        if k.startswith("dest"):
            h = r.choice(hosts)
            q["requested_destination"] = {"host": h["host"]}
            if k == "destnode":
                q["requested_destination"]["node"] = h["node"]
    if focus == "rebuild":
        hints["_nova_check_type"] = ["rebuild"]
    if focus == "multi-create" or maybe(r, 0.15):
        q["num_instances"] = r.randint(2, 6)
        if maybe(r, 0.6):
            q["instance_uuids"] = [inst] + [u("multi", inst, k) for k in range(1, q["num_instances"])]
            if q["group"]:
                q["group"]["members"] = members + q["instance_uuids"]
    return q


def gen_case(i, seed, nhosts, focus=None):
    r = random.Random(f"{seed}/{i}")
    focus = focus or FOCI[i % len(FOCI)]
    aggs = [{"name": f"agg{k}", "id": k + 1, "metadata": agg_metadata(r, focus)} for k in range(r.randint(1, 5))]
    members = [u("member", i, k) for k in range(r.randint(0, 4))]
    n = r.randint(max(2, nhosts // 2), nhosts)
    hosts = [gen_host(r, k, aggs, focus, members) for k in range(n)]
    req = gen_request(r, focus, hosts, members)
    filters = [
        f for f in FILTERS if f != focus and maybe(r, 0.1) and f not in ("MetricsFilter", "NUMATopologyFilter")
    ]
    if focus in FILTERS:
        filters.append(focus)
    if focus in ("force/ignore/destination", "rebuild", "multi-create"):
        filters = [
            "ComputeFilter",
            "ComputeCapabilitiesFilter",
            "ImagePropertiesFilter",
            "ServerGroupAntiAffinityFilter",
            "ServerGroupAffinityFilter",
            "IoOpsFilter",
            "NumInstancesFilter",
            "AggregateMultiTenancyIsolation",
        ]
    r.shuffle(filters)
    names = [w for w in WEIGHERS if maybe(r, 0.4)]
    if focus in WEIGHERS and focus not in names:
        names.append(focus)
    weighers = {}
    for w in names:
        weighers[w] = (
            r.choice([1.0, 1.0, 2.0, -1.0, 0.5, 0.0])
            if w not in ("BuildFailureWeigher", "CrossCellWeigher")
            else r.choice([1000000.0, 1.0, 2.0])
        )
    for w in ("ServerGroupSoftAffinityWeigher", "PCIWeigher", "ServerGroupSoftAntiAffinityWeigher"):
        if w in weighers:  # these options have a minimum of 0
            weighers[w] = abs(weighers[w])
    if focus in weighers and weighers[focus] == 0:
        weighers[focus] = 1.5
    opts = {}
    if focus in ("MetricsWeigher", "MetricsFilter") or ("MetricsWeigher" in weighers and maybe(r, 0.5)):
        opts["metrics.weight_setting"] = [
            f"{m}={r.choice([1.0, -1.0, 0.5, 2])}" for m in r.sample(METRICS, r.randint(1, 3))
        ]
        opts["metrics.required"] = maybe(r, 0.1)
        if maybe(r, 0.3):
            opts["metrics.weight_of_unavailable"] = r.choice([-10000.0, -1.0, 0.0])
    if focus == "IsolatedHostsFilter":
        opts["isolated_hosts"] = r.sample([h["host"] for h in hosts], min(3, n))
        opts["isolated_images"] = r.choice([[], [u("image", 0), u("image", 1)]])
        opts["restrict_isolated_hosts_to_isolated_images"] = maybe(r, 0.5)
    if focus == "AggregateImagePropertiesIsolation" and maybe(r, 0.15):
        opts["aggregate_image_properties_isolation_namespace"] = "ns"
    if focus == "ImagePropertiesFilter" and maybe(r, 0.3):
        opts["image_properties_default_architecture"] = r.choice(["x86_64", "aarch64"])
    if focus == "ImagePropertiesWeigher" and maybe(r, 0.4):
        opts["image_props_weight_setting"] = ["os_distro=2", "hw_architecture=0.5"]
    if focus in ("IoOpsFilter", "AggregateIoOpsFilter") and maybe(r, 0.5):
        opts["max_io_ops_per_host"] = r.choice([1, 5, 10])
    if focus in ("NumInstancesFilter", "AggregateNumInstancesFilter") and maybe(r, 0.5):
        opts["max_instances_per_host"] = r.choice([2, 10, 45])
    if focus == "ComputeFilter":
        opts["DEFAULT.service_down_time"] = 60
    return {
        "id": f"{seed}-{i:05d}",
        "focus": focus,
        "hosts": hosts,
        "request": req,
        "filters": filters,
        "weighers": weighers,
        "options": opts,
    }


def to_rocky(c, i, seed):
    """A case adapted to Rocky: filters of Rocky are added, weighers that
    it lacks are removed."""
    r = random.Random(f"rocky/{seed}/{i}")
    mine = ROCKY_FILTERS[i % len(ROCKY_FILTERS)]
    c["filters"] = [mine] + [f for f in ROCKY_FILTERS if f != mine and maybe(r, 0.15)] + c["filters"]
    r.shuffle(c["filters"])
    c["rocky_focus"] = mine
    for w in NOT_IN_ROCKY:
        c["weighers"].pop(w, None)
    c["options"].pop("image_props_weight_setting", None)
    q = c["request"]
    q["availability_zone"] = r.choice([None, "az1", "az2", "nova"])
    if mine == "RetryFilter" or maybe(r, 0.1):
        q["retry"] = {"num_attempts": 2, "hosts": [[h["host"], h["node"]] for h in r.sample(c["hosts"], 2)]}
    if (q.get("group") or {}).get("rules"):
        del q["group"]["rules"]  # max_server_per_host is newer than Rocky
    q["flavor"].update(
        memory_mb=r.choice([512, 4096, 16384]),
        vcpus=r.choice([1, 4, 16]),
        root_gb=r.choice([0, 20, 200]),
        swap=r.choice([0, 0, 2048]),
    )
    for a in {id(a): a for h in c["hosts"] for a in h["aggregates"]}.values():
        for k, f in (
            ("ram_allocation_ratio", "AggregateRamFilter"),
            ("cpu_allocation_ratio", "AggregateCoreFilter"),
            ("disk_allocation_ratio", "AggregateDiskFilter"),
        ):
            if maybe(r, 0.5 if f == mine else 0.05):
                a["metadata"][k] = r.choice(["1.0", "2", "0.5", "16", "x"])
    return c


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rocky", action="store_true")
    ap.add_argument("-n", type=int, default=1000)
    ap.add_argument("--seed", default="1")
    ap.add_argument("--hosts", type=int, default=12)
    ap.add_argument("--focus", choices=FOCI)
    a = ap.parse_args()
    for i in range(a.n):
        c = gen_case(i, a.seed, a.hosts, a.focus)
        print(json.dumps(to_rocky(c, i, a.seed) if a.rocky else c))


if __name__ == "__main__":
    main()
