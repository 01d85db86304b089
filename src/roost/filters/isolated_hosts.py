# SPDX-License-Identifier: Apache-2.0
"""The filter for hosts that the configuration reserves for certain images."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.model.remedy import OptionChange, Remedy
from roost.model.request import RequestSpec
from roost.options.declare import option


class IsolatedHostsFilter(Filter):
    """Run isolated images on isolated hosts only, and by default no other images on these hosts."""

    run_filter_once_per_request = True
    runs_on_rebuild = True

    @dataclass(frozen=True)
    class Options:
        """The isolated images, the isolated hosts, and whether the hosts take other images."""

        isolated_images: tuple[str, ...] = option(
            (), old=("isolated_images",), in_fleet=True, help="ids of images that run on isolated hosts only"
        )
        isolated_hosts: tuple[str, ...] = option(
            (), old=("isolated_hosts",), in_fleet=True, help="hosts reserved for isolated images"
        )
        restrict_isolated_hosts_to_isolated_images: bool = option(
            True,
            old=("restrict_isolated_hosts_to_isolated_images",),
            help="isolated hosts take isolated images only",
        )

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """Whether the image of the request is isolated."""
        return self._image_is_isolated(spec)

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for isolated hosts if the image is isolated; else for all others, or for all hosts if unrestricted."""
        options = self.options
        is_isolated = hosts.named(options.isolated_hosts)
        if self._image_is_isolated(spec):
            return is_isolated
        if options.restrict_isolated_hosts_to_isolated_images:
            return ~is_isolated
        return np.ones(len(hosts), dtype=np.bool_)

    def _image_is_isolated(self, spec: RequestSpec) -> bool:
        return spec.image is not None and spec.image.id in self.options.isolated_images

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Whether the image or the host is the isolated one."""
        if self._image_is_isolated(spec):
            return "the image is isolated; the host is not"
        return "the host is kept for isolated images; the request's is none"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """Another list of isolated hosts."""
        hosts = self.options.isolated_hosts
        if self._image_is_isolated(spec):
            text = f"add {host.host} to isolated_hosts, or use an image that is not isolated"
            return Remedy(text, (OptionChange("filter_scheduler", "isolated_hosts", [*hosts, host.host]),))
        others = [each for each in hosts if each != host.host]
        text = f"take {host.host} out of isolated_hosts, or use an isolated image"
        return Remedy(text, (OptionChange("filter_scheduler", "isolated_hosts", others),))
