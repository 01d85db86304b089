# SPDX-License-Identifier: Apache-2.0
"""nova's own client against Roost: runs where nova is installed and Roost is not, and prints what came back as JSON.

    build/nova-env/bin/python -W ignore tests/interop/nova_client.py NOVA.CONF

No line of nova is here: it is only imported and driven.
"""

import importlib.metadata
import json
import os
import sys
import uuid

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

import nova.conf  # noqa: E402
from nova import context, exception, objects, rpc  # noqa: E402
from nova.scheduler import rpcapi  # noqa: E402

CONF = nova.conf.CONF


def start(config_file):
    CONF([], project="nova", default_config_files=[config_file])
    objects.register_all()
    rpc.init(CONF)
    return rpcapi.SchedulerAPI(), context.RequestContext("ann", "blue", is_admin=True)


def request(uuids, memory_mb):
    flavor = objects.Flavor(
        id=3,
        name="m1.small",
        flavorid="3",
        memory_mb=memory_mb,
        vcpus=2,
        root_gb=20,
        ephemeral_gb=0,
        swap=0,
        rxtx_factor=1.0,
        vcpu_weight=0,
        disabled=False,
        is_public=True,
        extra_specs={},
    )
    properties = objects.ImageMetaProps(hw_architecture="x86_64", os_distro="ubuntu")
    return objects.RequestSpec(
        num_instances=len(uuids),
        instance_uuid=uuids[0],
        project_id="blue",
        user_id="ann",
        availability_zone=None,
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        requested_destination=None,
        retry=None,
        limits=objects.SchedulerLimits(),
        instance_group=None,
        scheduler_hints={},
        security_groups=objects.SecurityGroupList(objects=[]),
        is_bfv=False,
        requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
        numa_topology=None,
        pci_requests=objects.InstancePCIRequests(instance_uuid=uuids[0], requests=[]),
        image=objects.ImageMeta(id=str(uuid.uuid4()), properties=properties),
        flavor=flavor,
    )


def choose(api, ctxt):
    """Two instances, with objects and alternates: real Selection objects."""
    uuids = [str(uuid.uuid4()) for _ in range(2)]
    answer = api.select_destinations(ctxt, request(uuids, 2048), uuids, return_objects=True, return_alternates=True)
    found = []
    for selections in answer:
        assert all(isinstance(each, objects.Selection) for each in selections), selections
        assert all(isinstance(each.limits, objects.SchedulerLimits) for each in selections), selections
        found.append(
            [
                {
                    "host": each.service_host,
                    "node": each.nodename,
                    "node_uuid": each.compute_node_uuid,
                    "cell_uuid": each.cell_uuid,
                    "zone": each.availability_zone,
                    "allocation": json.loads(each.allocation_request),
                    "dict": each.to_dict(),
                }
                for each in selections
            ]
        )
    return {"uuids": uuids, "selections": found, "class": type(answer[0][0]).__module__}


def choose_for_dicts(api, ctxt):
    """One instance, in the form of before 4.5."""
    uuids = [str(uuid.uuid4())]
    return api.select_destinations(ctxt, request(uuids, 2048), uuids, return_objects=False)


def ask_for_too_much(api, ctxt):
    """nova's own exception, rebuilt by nova's own client."""
    uuids = [str(uuid.uuid4())]
    try:
        api.select_destinations(ctxt, request(uuids, 10**9), uuids, return_objects=True)
    except exception.NoValidHost as error:
        return {"class": f"{type(error).__module__}.{type(error).__name__}", "said": str(error), **error.kwargs}
    return {"class": "nothing was raised"}


def tell(api, ctxt, host):
    """The casts, each of them."""
    aggregate = objects.Aggregate(
        id=1, uuid=str(uuid.uuid4()), name="north", hosts=[host], metadata={"availability_zone": "north"}
    )
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    instances = objects.InstanceList(objects=[objects.Instance(uuid=each, host=host) for each in (first, second)])
    api.update_aggregates(ctxt, [aggregate])
    api.update_instance_info(ctxt, host, instances)
    api.delete_instance_info(ctxt, host, first)
    api.sync_instance_info(ctxt, host, [second])
    return {"aggregate": "north", "gone": first, "there": second}


def main(config_file):
    api, ctxt = start(config_file)
    chosen = choose(api, ctxt)
    report = {
        "nova": nova_version(),
        "chosen": chosen,
        "dicts": choose_for_dicts(api, ctxt),
        "too_much": ask_for_too_much(api, ctxt),
        "told": tell(api, ctxt, chosen["selections"][0][0]["host"]),
    }
    sys.stdout.write(json.dumps(report) + "\n")
    rpc.cleanup()


def nova_version():
    return importlib.metadata.version("nova")


if __name__ == "__main__":
    main(sys.argv[1])
