# SPDX-License-Identifier: Apache-2.0
"""Bring images of a kind together, or keep them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts, HostView
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.model.weight_setting import name_and_number
from roost.options import option
from roost.weighers.base import Weigher


class ImagePropertiesWeigher(Weigher):
    """How often instances on the host share image properties with the request; higher means more alike.

    Off by default. An aggregate alone does not switch it on: the configured multiplier must not be 0.
    """

    multiplier_option = aggregate_key = "image_props_weight_multiplier"
    reads = frozenset({"instances"})

    @dataclass(frozen=True)
    class Options:
        """How much it counts, and which properties."""

        image_props_weight_multiplier: float = option(
            0.0, help="weight of shared image properties; negative keeps them apart"
        )
        image_props_weight_setting: tuple[str, ...] = option(
            (), help="property names and their ratios, such as os_distro=1.0; empty: each counts once"
        )

    def applies_to(self, spec: RequestSpec) -> bool:
        """There is an image, and it counts."""
        return self.options.image_props_weight_multiplier != 0.0 and spec.image is not None

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """The number of shared properties, each by its ratio."""
        image = spec.image
        if not self.applies_to(spec) or image is None:
            return np.zeros(len(hosts))
        wanted = {name: image.properties.text_of(name) for name in image.properties}
        ratios = name_and_number(self.options.image_props_weight_setting)
        return np.array([self._shared(host, wanted, ratios) for host in hosts], dtype=np.float64)

    def _shared(self, host: HostView, wanted: Mapping[str, str], ratios: Mapping[str, float]) -> float:
        found = Counter(
            name
            for instance in host.instances.values()
            for name, text in instance.image_props.items()
            if wanted.get(name) == text
        )
        return sum((ratios.get(name, 0.0) if ratios else 1.0) * found[name] for name in wanted if name in found)
