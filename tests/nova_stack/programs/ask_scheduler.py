# SPDX-License-Identifier: Apache-2.0
"""Put requests to a scheduler as nova-conductor does: with nova's own client and objects.

    ask_scheduler.py TOPIC PLACEMENT_URL --config-file NOVA_CONF ...

Reads a JSON line {"clients": N, "releases": bool, "requests": [...]}, prints a JSON line for each request as it is
answered, then {"done": true}; ends with its input. Says {"ready": true} once nova is imported.
"""

import json
import os
import sys
import threading
import time

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

import requests  # noqa: E402
from nova import config, context, objects  # noqa: E402
from nova.scheduler import rpcapi  # noqa: E402
from nova.virt import hardware  # noqa: E402

HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.36"}
PRINTING = threading.Lock()


def say(line):
    with PRINTING:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def make_spec(asked):
    """The RequestSpec that nova-api and nova-conductor would make of this."""
    flavor, image = make_flavor(asked), make_image(asked)
    return objects.RequestSpec(
        flavor=flavor,
        image=image,
        num_instances=len(asked["uuids"]),
        instance_uuid=asked["uuids"][0],
        project_id="admin",
        user_id="admin",
        availability_zone=asked.get("zone"),
        force_hosts=asked.get("force_hosts"),
        force_nodes=None,
        ignore_hosts=asked.get("ignore_hosts"),
        instance_group=make_group(asked.get("group")),
        limits=objects.SchedulerLimits(),
        numa_topology=hardware.numa_get_constraints(flavor, image),
        pci_requests=objects.InstancePCIRequests(requests=[]),
        requested_destination=make_destination(asked.get("destination")),
        requested_resources=[],
        retry=None,
        scheduler_hints=asked.get("hints", {}),
        is_bfv=False,
        security_groups=objects.SecurityGroupList(),
        network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
        request_level_params=objects.RequestLevelParams(),
        requested_networks=objects.NetworkRequestList(),
    )


def make_flavor(asked):
    vcpus, memory_mb, root_gb = asked["size"]
    return objects.Flavor(
        id=1,
        flavorid="f",
        name="f",
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=root_gb,
        ephemeral_gb=0,
        swap=0,
        extra_specs=asked.get("extra_specs", {}),
        is_public=True,
        disabled=False,
        rxtx_factor=1.0,
        vcpu_weight=0,
        description=None,
    )


def make_image(asked):
    properties = objects.ImageMetaProps(**asked.get("image_properties", {}))
    return objects.ImageMeta(id="00000000-0000-4000-8000-000000000001", properties=properties)


def make_group(asked):
    """The server group with this uuid, as the conductor sends it: with the hosts of its members."""
    if not asked:
        return None
    group = objects.InstanceGroup.get_by_uuid(context.get_admin_context(), asked["uuid"])
    group.hosts = asked["hosts"]
    return group


def make_destination(host):
    return objects.Destination(host=host, node=host) if host else None


class Asker:
    """Clients of one scheduler."""

    def __init__(self, topic, placement):
        rpcapi.RPC_TOPIC = topic
        self.scheduler, self.placement = rpcapi.SchedulerAPI(), placement
        found = self.scheduler.client.target.topic if hasattr(self.scheduler.client, "target") else topic
        assert found == topic, f"nova's client sends to {found}, not to {topic}"

    def ask_all(self, order):
        todo = iter(enumerate(order["requests"]))
        taking = threading.Lock()

        def work():
            session = requests.Session()
            while True:
                with taking:
                    index, asked = next(todo, (None, None))
                if asked is None:
                    return
                answer = self.ask(asked)
                say({"index": index, **answer})
                if order["releases"] and "hosts" in answer:
                    self.release(session, asked["uuids"])

        threads = [threading.Thread(target=work) for _ in range(order["clients"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def ask(self, asked):
        """One request: where its instances go, or the class and the words of what was raised."""
        own = context.RequestContext("admin", "admin", is_admin=True)
        uuids, started, clock = asked["uuids"], time.time(), time.perf_counter()
        try:
            spec = make_spec(asked)
            started, clock = time.time(), time.perf_counter()
            answer = self.scheduler.select_destinations(own, spec, uuids, return_objects=True, return_alternates=True)
            found = {
                "hosts": [selections[0].service_host for selections in answer],
                "nodes": [selections[0].compute_node_uuid for selections in answer],
                "alternates": [[each.service_host for each in selections[1:]] for selections in answer],
            }
        except Exception as error:
            found = {"error": type(error).__name__.removesuffix("_Remote"), "said": f"{error}".splitlines()[0]}
        seconds = time.perf_counter() - clock
        return {"started": started, "seconds": seconds, "request_id": own.request_id, "uuids": uuids, **found}

    def release(self, session, uuids):
        for uuid in uuids:
            session.delete(f"{self.placement}/allocations/{uuid}", headers=HEADERS, timeout=60)


def main(topic, placement, *arguments):
    config.parse_args(["nova-ask", *arguments])
    objects.register_all()
    asker = Asker(topic, placement)
    say({"ready": True})
    for line in sys.stdin:
        asker.ask_all(json.loads(line))
        say({"done": True})


if __name__ == "__main__":
    main(*sys.argv[1:])
