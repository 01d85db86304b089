# SPDX-License-Identifier: Apache-2.0
"""Writes objects of a real nova, which must be installed, as it sends them: see README.md."""

import datetime
import json
import sys
from pathlib import Path
from unittest import mock

import nova.conf
import nova.rpc
from nova import context, objects
from nova.notifications.objects.request_spec import RequestSpecPayload
from nova.objects.base import NovaObjectSerializer
from oslo_serialization import jsonutils

TIME = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012d}"


def make_flavor():
    sizes = {"memory_mb": 4096, "vcpus": 4, "root_gb": 20, "ephemeral_gb": 1, "swap": 512}
    rest = {"rxtx_factor": 1.0, "vcpu_weight": None, "disabled": False, "is_public": True, "projects": []}
    return objects.Flavor(
        id=7,
        name="numa",
        flavorid="f7",
        extra_specs={"hw:cpu_policy": "dedicated"},
        description=None,
        created_at=TIME,
        updated_at=None,
        **sizes,
        **rest,
    )


PROPERTIES = {
    "hw_architecture": "x86_64",
    "os_distro": "debian",
    "hw_numa_nodes": "2",
    "hw_numa_cpus.0": "0-1",
    "hw_numa_cpus.1": "2,3",
    "hw_numa_mem.0": "2048",
    "hw_numa_mem.1": "2048",
    "img_hv_requested_version": ">=6.0, <7",
    "hw_qemu_guest_agent": "yes",
    "trait:CUSTOM_A": "required",
    "mappings": [{"virtual": "ami", "device": "sda1"}],
    "block_device_mapping": [{"a": "b"}],
    "hw_vif_model": "virtio",
    "img_version": "2",
}


def make_image():
    plain = {"id": uuid(1), "name": "img", "status": "active", "visibility": "public", "protected": False}
    plain |= {"checksum": "c", "owner": "o", "size": 10, "virtual_size": 20, "container_format": "bare"}
    plain |= {"disk_format": "qcow2", "created_at": TIME, "updated_at": TIME, "tags": ["a"], "min_ram": 1}
    return objects.ImageMeta.from_dict(plain | {"min_disk": 2, "properties": PROPERTIES})


def make_topology():
    same = {"cpuset": set(), "memory": 2048, "pagesize": 2048}
    same |= {"cpu_policy": "dedicated", "cpu_thread_policy": "prefer"}
    pinned = objects.InstanceNUMACell(
        id=0, pcpuset={0, 1}, cpu_pinning={0: 4, 1: 5}, cpuset_reserved={6}, cpu_topology=None, **same
    )
    shape = objects.VirtCPUTopology(sockets=1, cores=2, threads=1)
    free = objects.InstanceNUMACell(id=1, pcpuset={2, 3}, cpu_topology=shape, cpuset_reserved=None, **same)
    return objects.InstanceNUMATopology(instance_uuid=uuid(2), cells=[pinned, free], emulator_threads_policy="share")


def make_devices():
    card = {"vendor_id": "8086", "product_id": "154c", "dev_type": "type-VF"}
    of_flavor = objects.InstancePCIRequest(
        count=1, spec=[card], alias_name="nic", request_id=uuid(3), numa_policy="preferred", is_new=False
    )
    network = {"physical_network": "physnet1", "remote_managed": "False"}
    of_port = objects.InstancePCIRequest(count=1, spec=[network], request_id=uuid(4), requester_id=uuid(5))
    return objects.InstancePCIRequests(instance_uuid=uuid(2), requests=[of_flavor, of_port])


def make_conditions():
    cell = objects.CellMapping(
        uuid=uuid(8), name="cell1", transport_url="none:///", database_connection="sqlite://", disabled=False
    )
    tried = objects.ComputeNode(host="h1", hypervisor_hostname="n1")
    ratios = objects.NUMATopologyLimits(cpu_allocation_ratio=16.0, ram_allocation_ratio=1.5)
    limits = {"vcpu": 8.0, "memory_mb": 4096.0, "disk_gb": 100, "numa_topology": ratios}
    return {
        "requested_destination": objects.Destination(
            host="h2",
            node="n2",
            cell=cell,
            aggregates=[f"{uuid(9)},{uuid(10)}", uuid(11)],
            forbidden_aggregates={uuid(12)},
            allow_cross_cell_move=True,
        ),
        "retry": objects.SchedulerRetries(num_attempts=2, hosts=objects.ComputeNodeList(objects=[tried])),
        "limits": objects.SchedulerLimits.from_dict(limits),
        "network_metadata": objects.NetworkMetadata(physnets={"physnet1"}, tunneled=True),
        "requested_networks": objects.NetworkRequestList(
            objects=[objects.NetworkRequest(network_id=uuid(18), tag="t")]
        ),
        "security_groups": objects.SecurityGroupList(objects=[]),
        "request_level_params": objects.RequestLevelParams(
            root_required={"CUSTOM_ROOT"}, root_forbidden={"COMPUTE_STATUS_DISABLED"}, same_subtree=[["_a", "_b"]]
        ),
        "requested_resources": [make_request_group()],
    }


def make_request_group():
    return objects.RequestGroup(
        use_same_provider=True,
        resources={"CUSTOM_FPGA": 1, "NET_BW_EGR_KILOBIT_PER_SEC": 1000},
        required_traits={"CUSTOM_A"},
        forbidden_traits={"CUSTOM_B"},
        aggregates=[[uuid(9)], [uuid(10), uuid(11)]],
        forbidden_aggregates={uuid(12)},
        requester_id=uuid(5),
        provider_uuids=[uuid(16)],
        in_tree=uuid(17),
    )


def make_full_request():
    group = objects.InstanceGroup(
        id=1,
        uuid=uuid(6),
        name="g",
        user_id="u",
        project_id="p",
        policies=["anti-affinity"],
        policy="anti-affinity",
        rules={"max_server_per_host": "2"},
        members=[uuid(7)],
        hosts=["h3"],
    )
    return objects.RequestSpec(
        id=9,
        image=make_image(),
        numa_topology=make_topology(),
        pci_requests=make_devices(),
        project_id="p",
        user_id="u",
        availability_zone="az1",
        flavor=make_flavor(),
        num_instances=1,
        ignore_hosts=["h1"],
        force_hosts=["h2"],
        force_nodes=["n2"],
        instance_group=group,
        scheduler_hints={"group": [uuid(6)], "different_host": [uuid(13), uuid(14)]},
        instance_uuid=uuid(2),
        is_bfv=True,
        **make_conditions(),
    )


def make_bare_request():
    nulls = ("image", "numa_topology", "pci_requests", "project_id", "user_id", "availability_zone", "ignore_hosts")
    nulls += ("force_hosts", "force_nodes", "retry", "limits", "instance_group", "scheduler_hints")
    fields = dict.fromkeys(nulls) | {"instance_uuid": uuid(2), "num_instances": 1}
    return objects.RequestSpec(flavor=make_flavor(), security_groups=objects.SecurityGroupList(objects=[]), **fields)


def make_instances(of_context):
    instance = objects.Instance(
        of_context,
        uuid=uuid(30),
        project_id="p",
        user_id="u",
        host="h1",
        node="n1",
        image_ref=uuid(1),
        instance_type_id=7,
        flavor=make_flavor(),
        system_metadata={"image_os_distro": "debian"},
        created_at=TIME,
        vm_state="active",
        task_state=None,
    )
    return objects.InstanceList(objects=[instance])


def main():
    folder = Path(sys.argv[1])
    objects.register_all()
    nova.conf.CONF([], project="nova", default_config_files=[])
    nova.conf.CONF.set_override("notification_format", "both", group="notifications")
    nova.rpc.NOTIFIER = mock.Mock()
    everybody = context.RequestContext("u", "p", is_admin=True)

    def save(name, value):
        sent = NovaObjectSerializer().serialize_entity(everybody, value)
        plain = jsonutils.to_primitive(sent, convert_instances=True)
        (folder / f"{name}.json").write_text(json.dumps(ordered(plain), indent=1, sort_keys=True) + "\n")

    full, bare = make_full_request(), make_bare_request()
    for name, spec in {"full": full, "bare": bare}.items():
        save(f"request_spec.{name}", spec)
        dicts = spec.to_legacy_request_spec_dict(), spec.to_legacy_filter_properties_dict()
        save(f"legacy.{name}", dict(zip(("request_spec", "filter_properties"), dicts, strict=True)))
        save(f"request_spec_payload.{name}", RequestSpecPayload(spec))
    told = {"request_spec": full.to_legacy_request_spec_dict()}
    unversioned = nova.rpc.JsonPayloadSerializer().serialize_entity(everybody, told)
    (folder / "legacy_payload.full.json").write_text(json.dumps(unversioned, indent=1, sort_keys=True) + "\n")
    selection = objects.Selection(
        compute_node_uuid=uuid(20),
        service_host="h",
        nodename="n",
        cell_uuid=uuid(8),
        limits=full.limits,
        allocation_request="null",
        allocation_request_version=None,
        availability_zone=None,
    )
    save("selection.limits", selection)
    save("selection.limits.dict", selection.to_dict())
    save("instance_list", make_instances(everybody))


def ordered(value):
    """The names of changed fields are a set: sorted, so that the same objects give the same files."""
    if isinstance(value, dict):
        return {key: sorted(each) if key == "nova_object.changes" else ordered(each) for key, each in value.items()}
    return [ordered(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
