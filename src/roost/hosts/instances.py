# SPDX-License-Identifier: Apache-2.0
"""Instances on hosts: as a source reports them, as plugins see them, and the index of where each one runs.

A source is a fleet file, a database, a message of an agent or a placement. Plugins see nova's attribute names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from roost.errors import FieldError
from roost.hosts.encoded import Encoded
from roost.model.fields import AMOUNT, IDENTIFIER, MAPPING, TEXT_MAPPING, MappingOf, OptionalText, Record, TextMapping
from roost.model.flavor import AttributesAsItems, Flavor
from roost.model.image import parse_properties
from roost.model.kinds import FrozenDict, IdentityCache, Kind, OrNull, Schema, Timestamp
from roost.model.request import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, RESOURCE_CLASS, VCPU
from roost.model.uuids import UuidField, UuidText

if TYPE_CHECKING:
    from roost.hosts.table import HostTable


NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class _ImageTexts(Kind[Mapping[str, str]]):
    """Raw properties of an instance's image, made into the texts that weighers compare."""

    def strict(self, value: Any, field: str) -> Mapping[str, str]:
        """Property -> text, of those properties that are known."""
        raw = MAPPING.strict(value, field)
        try:
            properties = parse_properties(raw)
        except FieldError as error:
            raise FieldError(field, error.problem, error.hint) from None
        return {name: properties.text_of(name) for name in properties}

    @property
    def schema(self) -> Schema:
        """A mapping of scalars."""
        return TEXT_MAPPING.schema


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance that runs on a host. What its source does not know is None or empty."""

    uuid: UuidField
    project_id: OptionalText = None
    flavor_id: Annotated[Any, IDENTIFIER] = None
    image_props: Annotated[Mapping[str, str], _ImageTexts()] = field(default_factory=lambda: NO_PROPERTIES)
    resources: Annotated[Mapping[str, int], MappingOf(AMOUNT, key=RESOURCE_CLASS)] = field(default_factory=dict)
    """Amount it holds per resource class; empty: its source says nothing of amounts, whatever its flavor."""
    image_ref: OptionalText = None
    """Id of the image it was made from."""
    flavor: Annotated[Flavor | None, OrNull(Record(Flavor))] = None
    """Its flavor as it was when the instance was placed or resized."""
    system_metadata: TextMapping = field(default_factory=lambda: NO_PROPERTIES)
    """nova's system metadata, without the entries that follow from `image_props`."""
    created_at: Annotated[datetime | None, OrNull(Timestamp())] = None
    recorded_at: datetime | str | None = field(default=None, compare=False)
    """When the claim or record of the instance was made; without a zone it is UTC. It stands in for `created_at`."""


@dataclass(frozen=True, slots=True)
class MigrationHolding:
    """What the migration of a moving instance holds of a host: the source, or the old size of a resize there."""

    uuid: UuidField
    """Of the consumer in the ledger."""
    resources: Annotated[Mapping[str, int], MappingOf(AMOUNT, key=RESOURCE_CLASS)]
    """Amount it holds per resource class."""
    instance: Annotated[str | None, OrNull(UuidText())] = None
    """Uuid of the instance that moves, where it is known."""


FILE_FIELDS = tuple(name for name in Instance.__slots__ if name != "recorded_at")
"""Fields that an instance may have in a fleet file."""


def completed(instance: Instance, before: Instance) -> Instance:
    """The instance, with what only an earlier source knew of it.

    An agent's message has a flavor or metadata that the database may lack; they are still true when the node is read
    again, unless the instance has another flavor now.
    """
    if instance.flavor_id != before.flavor_id:
        return instance
    return replace(
        instance,
        image_ref=instance.image_ref or before.image_ref,
        flavor=instance.flavor or before.flavor,
        system_metadata=instance.system_metadata or before.system_metadata,
        created_at=instance.created_at or before.created_at,
    )


_TIME = OrNull(Timestamp())
IMAGE_PREFIX = "image_"
"""Prefix of the entries of an instance's system metadata that come from its image."""


class HostedInstance(AttributesAsItems):
    """An instance in the form that nova's filters expect: its record, and the host and node that it runs on."""

    def __init__(self, instance: Instance, host: str, node: str, flavors: Mapping[str, Flavor]) -> None:
        """`flavors`: name -> flavor, for an instance whose record only has the id of its flavor."""
        self._instance, self._flavors = instance, flavors
        self.host, self.node = host, node

    def __getattr__(self, name: str) -> Any:
        """The attributes of its `Instance` record."""
        if name.startswith("_"):  # copy and pickle look up such names before __init__ has run
            raise AttributeError(name)
        return getattr(self._instance, name)

    @property
    def flavor(self) -> Flavor:
        """The flavor it was placed with; if that is not known, a flavor of the size of its allocation.

        Extra specs of an unknown flavor are empty; the first plugin that reads them causes a warning in the log.
        """
        known = self._instance
        if known.flavor is not None:
            return known.flavor
        if found := flavors_by_key(self._flavors).get(known.flavor_id):
            return found
        vcpus, memory_mb, disk_gb = (known.resources.get(each, 0) for each in (VCPU, MEMORY_MB, DISK_GB))
        flavor = Flavor(vcpus=vcpus, memory_mb=memory_mb, root_gb=disk_gb, id=known.flavor_id)
        vars(flavor)["extra_specs"] = UnknownExtraSpecs(f"{known.uuid} on host {self.host}")
        return flavor

    instance_type = flavor

    @property
    def instance_type_id(self) -> Any:
        """The id of the flavor, under its name in older releases of nova."""
        return self._instance.flavor_id

    @property
    def system_metadata(self) -> Mapping[str, str]:
        """The system metadata of nova: the properties of its image, and what else its agent sent."""
        known = self._instance
        found = {f"{IMAGE_PREFIX}base_image_ref": known.image_ref} if known.image_ref else {}
        found |= {f"{IMAGE_PREFIX}{name}": text for name, text in known.image_props.items()}
        return FrozenDict(found | dict(known.system_metadata))

    @property
    def created_at(self) -> datetime | None:
        """When it was created, in UTC: as its agent said, or else when it was claimed. None: not known."""
        time: datetime | None = _TIME.strict(self._instance.created_at or self._instance.recorded_at, "created_at")
        return time

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostedInstance) and (self._instance, self.host) == (other._instance, other.host)

    def __hash__(self) -> int:
        return hash(self._instance.uuid)

    def __repr__(self) -> str:
        return f"HostedInstance({self.uuid} on {self.host})"


def flavors_by_key(flavors: Mapping[str, Flavor]) -> Mapping[Any, Flavor]:
    """Id, flavorid or name -> flavor, in this precedence: what an instance may give as its `flavor_id`."""
    return _INDEXES.get(flavors) or _INDEXES.put(flavors, _index(flavors))


def _index(flavors: Mapping[str, Flavor]) -> dict[Any, Flavor]:
    index: dict[Any, Flavor] = {}
    for name in ("id", "flavorid", "name"):
        for each in flavors.values():
            if key := getattr(each, name):
                index.setdefault(key, each)
    return index


_INDEXES = IdentityCache[dict[Any, Flavor]](most=16)


class UnknownExtraSpecs(FrozenDict[str]):
    """Empty extra specs of a flavor of which only the size is known: a plugin that reads them may decide wrongly.

    nova has no such case. `roost.plugins.context` logs a warning for the first read in a process.
    """

    on_read: ClassVar[Callable[[str], None]] = staticmethod(lambda owner: None)
    """Called with the instance and its host when a plugin reads the extra specs."""

    def __init__(self, owner: str) -> None:
        """`owner`: the instance and its host."""
        super().__init__()
        self._owner = owner

    def _read(self) -> Mapping[str, str]:
        UnknownExtraSpecs.on_read(self._owner)
        return _NO_SPECS

    def __getitem__(self, key: str) -> str:
        return self._read()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def get(self, key: str, default: Any = None) -> Any:
        """The default, for every key."""
        return self._read().get(key, default)

    def keys(self) -> Any:
        """No keys."""
        return self._read().keys()

    def values(self) -> Any:
        """No values."""
        return self._read().values()

    def items(self) -> Any:
        """No items."""
        return self._read().items()


_NO_SPECS: Mapping[str, str] = FrozenDict()


class HostedInstances(Mapping[str, HostedInstance]):
    """The instances of one host, by uuid: a live mapping that reflects later changes."""

    def __init__(self, by_uuid: Mapping[str, Instance], host: str, node: str, flavors: Mapping[str, Flavor]) -> None:
        self._by_uuid, self._host, self._node, self._flavors = by_uuid, host, node, flavors

    def __getitem__(self, uuid: str) -> HostedInstance:
        return HostedInstance(self._by_uuid[uuid], self._host, self._node, self._flavors)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._by_uuid

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_uuid)

    def __len__(self) -> int:
        return len(self._by_uuid)


def instances_at(table: HostTable, row: int) -> HostedInstances:
    """The instances on a row of the table, by uuid."""
    return HostedInstances(table.instances.get(row, {}), *table.names[row], table.flavors)


class InstanceIndex:
    """Instances by row and rows by instance uuid, kept consistent with each other."""

    def __init__(self) -> None:
        self.by_row: dict[int, dict[str, Instance]] = {}
        """Row -> instance uuid -> instance."""
        self._rows: dict[str, tuple[int, ...]] = {}
        """Instance uuid -> rows: one, or two during a move."""
        self._extra_references: dict[tuple[int, str], int] = {}
        """(Row, instance uuid) -> references beyond the first, for instances that consumed resources repeatedly."""
        self._flavor_ids: Encoded | None = None
        """The column that `flavor_ids` returns; None until its first access."""

    def rows_of(self, uuid: str) -> tuple[int, ...]:
        """The rows on which an instance runs; empty if the uuid is unknown."""
        return self._rows.get(uuid, ())

    def count_on(self, row: int, uuids: frozenset[str]) -> int:
        """How many of the given instances run on a row. Cost is linear in the instances on the row."""
        return sum([uuid in uuids for uuid in self.by_row.get(row, ())])

    def acquire(self, row: int, instance: Instance) -> None:
        """Add a reference to an instance on a row: one that is resized on its host, or rebuilt, has several."""
        present = self.by_row.get(row)
        if present is not None and instance.uuid in present:
            self._extra_references[row, instance.uuid] = self._extra_references.get((row, instance.uuid), 0) + 1
        else:
            self.put(row, instance)

    def release(self, row: int, uuid: str) -> None:
        """Undo one `acquire`; releasing the last reference removes the instance from the row."""
        extra = self._extra_references.pop((row, uuid), 0) if self._extra_references else 0
        if not extra:
            self._remove(row, uuid)
        elif extra > 1:
            self._extra_references[row, uuid] = extra - 1

    def replace(self, row: int, added: Iterable[Instance], removed: Iterable[str]) -> bool:
        """Put the instances `added` on a row and remove the uuids `removed`; True if anything changed. Idempotent."""
        present = self.by_row.get(row, {})
        leaving = [uuid for uuid in removed if uuid in present]
        for uuid in leaving:
            self._remove(row, uuid)
            self._extra_references.pop((row, uuid), None)
        is_changed = bool(leaving)
        for each in added:
            before = present.get(each.uuid)
            if before != each:
                known = before or self.find(each.uuid)
                instance = completed(each, known) if known else each
                if before != instance:
                    self.put(row, instance)
                    is_changed = True
        return is_changed

    def find(self, uuid: str) -> Instance | None:
        """An instance, as it is recorded on the first of its rows; None if the uuid is unknown."""
        rows = self._rows.get(uuid)
        return self.by_row[rows[0]].get(uuid) if rows else None

    def complete_from(self, older: InstanceIndex) -> None:
        """Add what an older index knows of instances whose flavor this one does not know."""
        for instances in self.by_row.values():
            for uuid, instance in instances.items():
                if instance.flavor is None and (before := older.find(uuid)) is not None:
                    instances[uuid] = completed(instance, before)

    def put(self, row: int, instance: Instance) -> None:
        """Record that an instance runs on a row, or replace what is recorded of it there."""
        uuid = instance.uuid
        self.by_row.setdefault(row, {})[uuid] = instance
        self._update_flavors(row)
        rows = self._rows.get(uuid)
        if rows is None:
            self._rows[uuid] = (row,)
        elif row not in rows:
            self._rows[uuid] = (*rows, row)

    def _remove(self, row: int, uuid: str) -> None:
        if self.by_row.get(row, {}).pop(uuid, None):
            self._update_flavors(row)
        rows = self._rows.pop(uuid, ())
        if rows != (row,) and (rest := tuple(each for each in rows if each != row)):
            self._rows[uuid] = rest

    def flavor_ids(self, row_count: int) -> Encoded:
        """The set of flavor ids on each row, as a column; built on first access and maintained from then on."""
        if self._flavor_ids is None:
            self._flavor_ids = Encoded(map(self._flavors_on, range(row_count)))
        return self._flavor_ids

    def _flavors_on(self, row: int) -> frozenset[Any]:
        return frozenset([each.flavor_id for each in self.by_row.get(row, {}).values()])

    def _update_flavors(self, row: int) -> None:
        if self._flavor_ids is not None:
            self._flavor_ids.set(row, self._flavors_on(row))

    def renumber(self, new_row: Mapping[int, int]) -> None:
        """Change all row numbers: `new_row` maps old to new."""
        self.by_row = {new_row[old]: instances for old, instances in self.by_row.items()}
        self._rows = {uuid: tuple(new_row[old] for old in rows) for uuid, rows in self._rows.items()}

    def copy_to(self, twin: InstanceIndex) -> None:
        """Make the index of another table with equal rows an independent copy of this one."""
        twin.by_row = {row: dict(instances) for row, instances in self.by_row.items()}
        twin._rows = dict(self._rows)
        twin._extra_references = dict(self._extra_references)

    def copy_rows_to(self, twin: InstanceIndex, row_of: Mapping[int, int]) -> None:
        """Copy rows to the index of another table: `row_of` maps rows here to rows there, others are left out."""
        for row, instances in self.by_row.items():
            if row in row_of and instances:
                twin.replace(row_of[row], instances.values(), ())
        extra = self._extra_references.items()
        twin._extra_references |= {(row_of[row], uuid): count for (row, uuid), count in extra if row in row_of}


def placed_instance(spec: RequestSpec, placed_at: datetime | None) -> Instance:
    """The instance to index for a placed request; `note_image` adds its image properties later."""
    return Instance(
        str(spec.instance_uuid),
        spec.project_id,
        spec.flavor.id,
        NO_PROPERTIES,
        spec.amounts,
        spec.image.id if spec.image else None,
        spec.flavor,
        NO_PROPERTIES,
        None,
        placed_at,
    )
