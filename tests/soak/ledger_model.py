# SPDX-License-Identifier: Apache-2.0
"""The ledger as plain dicts: who holds how many vCPUs of which node, and what each operation makes of that.

Written from docs/explanation/the-ledger.md, not from the code, and without any notion of slots, locks or rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

Held = dict[str, int]
"""Node -> vCPUs."""


@dataclass
class Model:
    """Nodes, what instances and their migrations hold of them, and two groups."""

    hosts: dict[str, str]
    """Node -> host; a host may have two nodes."""
    capacity: dict[str, int]
    most_per_host: int
    """Members of the anti-affinity group that may be on a host."""
    held: dict[str, Held] = field(default_factory=dict)
    """Instance or migration -> what it holds; those that hold nothing are left out."""
    apart: set[str] = field(default_factory=set)
    together: set[str] = field(default_factory=set)

    def of(self, consumer: str) -> Held:
        return self.held.get(consumer, {})

    def free(self, node: str) -> int:
        return self.capacity[node] - sum(each.get(node, 0) for each in self.held.values())

    def put(self, consumer: str, held: Held) -> None:
        self.held.pop(consumer, None)
        if held:
            self.held[consumer] = dict(held)

    def places(self, instance: str) -> set[str]:
        """Hosts of an instance and its migration."""
        return {self.hosts[node] for each in (instance, migration_of(instance)) for node in self.of(each)}

    def homes(self, instance: str) -> set[str]:
        return {self.hosts[node] for node in self.of(instance)}

    def copy(self) -> "Model":
        held = {consumer: dict(each) for consumer, each in self.held.items()}
        return Model(self.hosts, self.capacity, self.most_per_host, held, set(self.apart), set(self.together))

    # --- what may be ---

    def broken(self) -> Iterator[str]:
        """Promises that this state breaks."""
        for node in self.capacity:
            if self.free(node) < 0:
                yield f"{node} is overbooked by {-self.free(node)}"
        for host in set(self.hosts.values()):
            members = [each for each in self.apart if host in self.places(each)]
            if len(members) > self.most_per_host:
                yield f"{members} are on {host}"
        homes = {each: self.homes(each) for each in self.together if self.homes(each)}
        if len(homes) > 1 and len(set().union(*homes.values())) > 1:
            yield f"the affinity group is on {homes}"

    def may_refuse_for_affinity(self, instance: str) -> bool:
        """Whether another member of the affinity group holds something, here or on its way."""
        return instance in self.together and any(self.places(each) for each in self.together - {instance})

    # --- operations: the next state, or why there is none ---

    def claim(self, instance: str, node: str, vcpus: int) -> "Model | str":
        if self.of(instance):
            return self.copy() if self.of(instance) == {node: vcpus} else "already"
        return self._with(instance, {node: vcpus})

    def start(self, instance: str, node: str, vcpus: int) -> "Model | str":
        if not self.of(instance):
            return "unknown"
        if self.of(migration_of(instance)):
            return self.copy() if self.of(instance) == {node: vcpus} else "already"
        return self._with(instance, {node: vcpus}, self.of(instance))

    def retarget(self, instance: str, node: str, vcpus: int) -> "Model | str":
        if not self.of(instance) or not self.of(migration_of(instance)):
            return "unknown"
        return self._with(instance, {node: vcpus}, self.of(migration_of(instance)))

    def place(self, instance: str, node: str, vcpus: int, ignored: set[str]) -> "Model | str":
        """What the scheduler does for an instance that may hold something: it decides by the hosts to ignore."""
        places, sources = self.of(instance), self.of(migration_of(instance))
        if not places or places == {node: vcpus}:
            return self.claim(instance, node, vcpus)
        if any(self.hosts[each] in ignored for each in sources):
            kept = sources
        elif not sources or self.homes(instance) & ignored:
            kept = places
        else:
            kept = {each: max(places.get(each, 0), sources.get(each, 0)) for each in {**sources, **places}}
        return self._with(instance, {node: vcpus}, kept)

    def finish(self, instance: str) -> "Model":
        return self._with(instance, self.of(instance), {})

    def undo(self, instance: str) -> "Model":
        source = self.of(migration_of(instance))
        return self._with(instance, source, {}) if source else self.copy()

    def release_on(self, instance: str, nodes: set[str]) -> "Model":
        leaving = migration_of(instance) if self.of(migration_of(instance)) else instance
        after = self.copy()
        after.put(leaving, {node: vcpus for node, vcpus in self.of(leaving).items() if node not in nodes})
        return after

    def _with(self, instance: str, held: Held, source: Held | None = None) -> "Model":
        after = self.copy()
        after.put(instance, held)
        if source is not None:
            after.put(migration_of(instance), source)
        return after


def migration_of(instance: str) -> str:
    from roost.model.resources import move_of  # the name alone: the ledger gets it from its caller

    return move_of(instance)
