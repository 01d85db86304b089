# SPDX-License-Identifier: Apache-2.0
"""Tables and requests in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.hosts import HostRecord, HostTable, Instance
from roost.model import Aggregate, Flavor, Image, RequestSpec, Service

_FLAVOR = {"vcpus": 1, "memory_mb": 512, "root_gb": 0, "ephemeral_gb": 0, "swap": 0}
_FLAVOR_FIELDS = (*_FLAVOR, "name", "id", "extra_specs")


def make_hosts(count: int | None = None, **columns: Any) -> HostTable:
    """A table. A list gives one value per host, anything else goes to all of them.

    Hosts are called host1, host2, ... unless `host` says otherwise. Aggregates may be given as their metadata,
    services as mappings, instances as uuids: `make_hosts(aggregates=[[{"availability_zone": "az1"}], []])`.
    """
    return HostTable.of(make_records(count, **columns))


def make_records(count: int | None = None, **columns: Any) -> list[HostRecord]:
    """The records behind `make_hosts`."""
    lengths = {len(values) for name, values in columns.items() if isinstance(values, list)}
    if len(lengths) > 1:
        raise ValueError(f"columns of different lengths: {sorted(lengths)}")
    total = lengths.pop() if lengths else (1 if count is None else count)
    columns.setdefault("host", [f"host{number}" for number in range(1, total + 1)])
    rows = [
        {name: values[at] if isinstance(values, list) else values for name, values in columns.items()}
        for at in range(total)
    ]
    return [HostRecord(**_proper(row)) for row in rows]


def _proper(row: dict[str, Any]) -> dict[str, Any]:
    if "aggregates" in row:
        row["aggregates"] = tuple(_aggregate(each, at) for at, each in enumerate(row["aggregates"], start=1))
    if "instances" in row:
        row["instances"] = tuple(Instance(each) if isinstance(each, str) else each for each in row["instances"])
    if isinstance(row.get("service"), Mapping):
        row["service"] = Service(**row["service"])
    if "traits" in row:
        row["traits"] = frozenset(row["traits"])
    if "supported_instances" in row:
        row["supported_instances"] = tuple(tuple(each) for each in row["supported_instances"])
    return row


def _aggregate(each: Aggregate | Mapping[str, str], number: int) -> Aggregate:
    return each if isinstance(each, Aggregate) else Aggregate(f"aggregate{number}", each, id=number)


def make_spec(image: Mapping[str, Any] | Image | None = None, **fields: Any) -> RequestSpec:
    """A request; sizes and extra_specs go to its flavor, a mapping of image properties to its image."""
    sizes = {name: fields.pop(name) for name in _FLAVOR_FIELDS if name in fields}
    flavor = fields.pop("flavor", None) or Flavor(**(_FLAVOR | sizes))
    if isinstance(image, Mapping):
        image = Image(id="image1", properties=image)  # type: ignore[arg-type]
    return RequestSpec(flavor=flavor, image=image, **fields)
