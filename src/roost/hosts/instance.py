# SPDX-License-Identifier: Apache-2.0
"""Instances on hosts, as a source reports them: a fleet file, a database, a message of an agent, a placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any

from roost.errors import FieldError
from roost.model.fields import AMOUNT, IDENTIFIER, MAPPING, TEXT_MAPPING, MappingOf, OptionalText, Record, TextMapping
from roost.model.flavor import Flavor
from roost.model.image import parse_properties
from roost.model.kinds import Kind, OrNull, Schema, Timestamp
from roost.model.resources import RESOURCE_CLASS
from roost.model.uuids import UuidField, UuidText

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
