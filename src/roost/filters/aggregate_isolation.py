# SPDX-License-Identifier: Apache-2.0
"""Hosts that their aggregates keep for some images, or for some projects."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.aggregate import Aggregate, merged_metadata
from roost.model.image import Image
from roost.model.image_properties import KNOWN
from roost.model.request import RequestSpec
from roost.options import option


class AggregateImagePropertiesIsolation(Filter):
    """Keep images off hosts whose aggregates ask for another value of one of their properties.

    One-sided: an image without the property passes everywhere, and so does every image on a host whose aggregates
    do not name the property.
    """

    run_filter_once_per_request = True
    runs_on_rebuild = True
    reads = frozenset({"aggregates"})

    @dataclass(frozen=True)
    class Options:
        """Which metadata keys are about images."""

        aggregate_image_properties_isolation_namespace: str | None = option(
            None,
            old=("aggregate_image_properties_isolation_namespace",),
            help="only metadata keys that start with this and the separator count",
        )
        aggregate_image_properties_isolation_separator: str = option(
            ".",
            old=("aggregate_image_properties_isolation_separator",),
            help="what stands between the namespace and the rest of a key",
        )

    def applies_to(self, spec: RequestSpec) -> bool:
        """There is an image."""
        return spec.image is not None

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """No aggregate wants another value."""
        image = spec.image
        if image is None:
            return np.ones(len(hosts), dtype=np.bool_)
        return hosts.per_value("aggregates", lambda each: self.conflict(each, image) is None)

    def conflict(self, aggregates: Collection[Aggregate], image: Image) -> tuple[str, str, set[str]] | None:
        """The first property whose text is none of the values asked for: name, text, values."""
        prefix = self.options.aggregate_image_properties_isolation_namespace
        if prefix:
            prefix += self.options.aggregate_image_properties_isolation_separator
        for key, values in merged_metadata(aggregates).items():
            if prefix and not key.startswith(prefix):
                continue
            if key in KNOWN and image.properties.get(key) and image.properties.text_of(key) not in values:
                return key, image.properties.text_of(key), values
        return None

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Which property, and what the aggregates ask for."""
        found = self.conflict(host.aggregates, spec.image) if spec.image else None
        if found is None:
            return "its aggregates ask for other images"
        return f"the image has {found[0]}={found[1]}; its aggregates take {', '.join(sorted(found[2]))}"


class AggregateMultiTenancyIsolation(Filter):
    """Keep other projects off hosts whose aggregates name projects under `filter_tenant_id...`.

    It does not keep a project inside: hosts that name nobody take everybody.
    """

    run_filter_once_per_request = True
    reads = frozenset({"aggregates"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """Whose request it is."""
        return spec.project_id

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Named, or nobody is."""
        return hosts.per_value("aggregates", lambda each: self._admits(each, spec.project_id))

    def _admits(self, aggregates: Collection[Aggregate], project: str | None) -> bool:
        projects = self.projects(aggregates)
        return not projects or project in projects

    def projects(self, aggregates: Collection[Aggregate]) -> set[str]:
        """The projects that these aggregates name, under any key that begins so."""
        entries = merged_metadata(aggregates).items()
        return {project for key, values in entries if key.startswith("filter_tenant_id") for project in values}

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Whose host it is."""
        projects = ", ".join(sorted(self.projects(host.aggregates)))
        return f"kept for the projects {projects}; the request is of {spec.project_id}"
