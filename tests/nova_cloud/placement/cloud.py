# SPDX-License-Identifier: Apache-2.0
"""What a test of the placement client works with: clients, a proxy that makes faults, and providers."""

import uuid
from collections import Counter

from tests.nova_cloud.placement.fault_proxy import FaultProxy

from roost.nova.placement.allocations import AllocationRequest, AllocationWriter
from roost.nova.placement.client import PlacementClient, make_adapter
from roost.nova.placement.providers import ProviderReader

HOST = {"VCPU": {"total": 8, "allocation_ratio": 2.0}, "MEMORY_MB": {"total": 1000, "reserved": 100}}
"""Inventories of a usual provider: 16 VCPU and 900 MiB can be claimed."""


class Cloud:
    """A client of placement behind a proxy, and providers that are gone after the test."""

    def __init__(self, port, folder):
        self.folder, self.real_port, self.proxy = folder, port, FaultProxy(port)
        self.clients = []
        self.calls = Counter()
        """(method, kind of path) -> how often it was called."""
        self.direct = self.open_client(port)
        self.client = self.open_client(self.proxy.port, statistics=self.count)
        self.reader = ProviderReader(self.client)
        self.pauses = []
        self.writer = AllocationWriter(self.client, self.reader, sleep=self.pauses.append)

    def count(self, method, kind, status, seconds):
        self.calls[method, kind] += 1

    def open_client(self, port, **options):
        self.clients.append(PlacementClient(make_adapter([self.config(port)]), **options))
        return self.clients[-1]

    def config(self, port, more=""):
        file = self.folder / f"nova-{port}.conf"
        address = f"endpoint = http://127.0.0.1:{port}\ntoken = admin"
        file.write_text(f"[placement]\nauth_type = admin_token\n{address}\n{more}")
        return file

    def add(self, inventories=HOST, parent=None, traits=(), aggregates=(), new=None):
        """The uuid of a new provider."""
        new = new or str(uuid.uuid4())
        child = {"parent_provider_uuid": parent} if parent else {}
        self.direct.post("/resource_providers", {"name": f"host-{new}", "uuid": new} | child)
        body = {"inventories": inventories, "resource_provider_generation": 0}
        self.direct.put(f"/resource_providers/{new}/inventories", body)
        if traits:
            self.put(new, "traits", traits=list(traits))
        if aggregates:
            self.put(new, "aggregates", aggregates=list(aggregates))
        return new

    def put(self, provider, what, **body):
        generation = self.direct.get(f"/resource_providers/{provider}")["generation"]
        path = f"/resource_providers/{provider}/{what}"
        self.direct.put(path, body | {"resource_provider_generation": generation})

    def set_inventories(self, provider, inventories):
        self.put(provider, "inventories", inventories=inventories)

    def used(self, provider):
        """What placement itself says."""
        return self.direct.get(f"/resource_providers/{provider}/usages")["usages"]

    def held(self, consumer):
        """Provider uuid -> amounts, as placement itself says."""
        found = self.direct.get(f"/allocations/{consumer}")["allocations"]
        return {provider: each["resources"] for provider, each in found.items()}

    def request(self, provider, consumer=None, **amounts):
        """A request for an instance that is new unless its uuid is given."""
        consumer = consumer or str(uuid.uuid4())
        asked = {provider: amounts or {"VCPU": 1, "MEMORY_MB": 100}}
        return AllocationRequest(consumer, asked, {"": [provider]}, "project", "user")

    def close(self):
        for client in self.clients:
            client.close()
        self.proxy.close()
