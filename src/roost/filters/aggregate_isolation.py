# SPDX-License-Identifier: Apache-2.0
"""Filters for hosts whose aggregate metadata reserves them for certain images or projects."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import extend_label
from roost.model.group import Aggregate, merged_metadata
from roost.model.image import Image
from roost.model.image_property_values import PROPERTY_NAMES
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec
from roost.options.declare import option


class AggregateImagePropertiesIsolation(Filter):
    """Leave out hosts whose aggregates require another value of one of the image's properties.

    The isolation is one-sided: an image without the property passes on all hosts, and a host whose aggregates do not
    name the property passes for all images.
    """

    run_filter_once_per_request = True
    runs_on_rebuild = True
    reads = frozenset({"aggregates"})

    @dataclass(frozen=True)
    class Options:
        """Which metadata keys name image properties."""

        aggregate_image_properties_isolation_namespace: str | None = option(
            None,
            in_fleet=True,
            old=("aggregate_image_properties_isolation_namespace",),
            help="only metadata keys that start with this and the separator are considered",
        )
        aggregate_image_properties_isolation_separator: str = option(
            ".",
            in_fleet=True,
            old=("aggregate_image_properties_isolation_separator",),
            help="separator between the namespace and the rest of a key",
        )

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the request has an image."""
        return spec.image is not None

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts whose aggregates require no other value of a property of the image."""
        image = spec.image
        if image is None:
            return np.ones(len(hosts), dtype=np.bool_)
        return hosts.per_value("aggregates", lambda each: self.conflict(each, image) is None)

    def conflict(self, aggregates: Collection[Aggregate], image: Image) -> tuple[str, str, set[str]] | None:
        """The first conflicting property as (name, the image's value, values required); None if there is none."""
        return next(self.conflicts(aggregates, image), None)

    def conflicts(self, aggregates: Collection[Aggregate], image: Image) -> Iterator[tuple[str, str, set[str]]]:
        """Each conflicting property as (name, the image's value, values required)."""
        prefix = self.options.aggregate_image_properties_isolation_namespace
        if prefix:
            prefix += self.options.aggregate_image_properties_isolation_separator
        for key, values in merged_metadata(aggregates).items():
            if prefix and not key.startswith(prefix):
                continue
            if key in PROPERTY_NAMES and image.properties.get(key) and image.properties.text_of(key) not in values:
                yield key, image.properties.text_of(key), values

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The conflicting property with the image's value, and the values that the aggregates require."""
        found = self.conflict(host.aggregates, spec.image) if spec.image else None
        if found is None:
            return "its aggregates ask for other images"
        return f"the image has {found[0]}={found[1]}; its aggregates take {', '.join(sorted(found[2]))}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """An image without the conflicting properties, or with a value that the aggregates take."""
        found = list(self.conflicts(host.aggregates, spec.image)) if spec.image else []
        wanted = " and ".join(f"{name}={' or '.join(sorted(values))}" for name, _, values in found)
        text = f"use an image with {wanted}, or without {' and '.join(name for name, _, _ in found)}"
        return Remedy(text, tuple(RequestChange(f"image.properties.{name}", None) for name, _, _ in found))


class AggregateMultiTenancyIsolation(Filter):
    """Leave out hosts that are reserved for other projects by aggregate metadata `filter_tenant_id...`.

    Every metadata key with that prefix is considered. The isolation is one-sided: hosts without such metadata take
    requests of all projects.
    """

    run_filter_once_per_request = True
    reads = frozenset({"aggregates"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The project of the request."""
        return spec.project_id

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts that are reserved for the request's project, or for no project."""
        return hosts.per_value("aggregates", lambda each: self._admits(each, spec.project_id))

    def _admits(self, aggregates: Collection[Aggregate], project: str | None) -> bool:
        projects = self.projects(aggregates)
        return not projects or project in projects

    def projects(self, aggregates: Collection[Aggregate]) -> set[str]:
        """The projects for which the aggregates reserve their hosts; empty for no restriction."""
        entries = merged_metadata(aggregates).items()
        return {project for key, values in entries if key.startswith("filter_tenant_id") for project in values}

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The projects that the host is reserved for, and the project of the request."""
        projects = ", ".join(sorted(self.projects(host.aggregates)))
        return f"kept for the projects {projects}; the request is of {spec.project_id}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """The project of the request among those that the host is reserved for."""
        if not spec.project_id:  # a request of no project can be listed nowhere
            project = min(self.projects(host.aggregates))
            return Remedy(f"ask as project {project}", (RequestChange("project_id", project),))
        keys = {key for each in host.aggregates for key in each.metadata if key.startswith("filter_tenant_id")}
        text, change = extend_label(host, min(keys), spec.project_id)
        return Remedy(text, (change,))
