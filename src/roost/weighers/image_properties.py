# SPDX-License-Identifier: Apache-2.0
"""The weigher by image properties that the instances on a host share with the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts, HostView
from roost.hosts.encoded import Array
from roost.model.request import RequestSpec
from roost.options.declare import option, parse_weight_setting
from roost.weighers.base import Weigher


class ImagePropertiesWeigher(Weigher):
    """Number of image properties that instances on the host share with the request; higher means more in common.

    Off by default. Aggregate metadata alone does not enable it: the configured multiplier must not be 0.
    """

    multiplier_option = aggregate_key = "image_props_weight_multiplier"
    reads = frozenset({"instances"})

    @dataclass(frozen=True)
    class Options:
        """The multiplier, and the properties with their ratios."""

        image_props_weight_multiplier: float = option(
            0.0,
            help="weight of shared image properties; positive packs similar images, negative spreads them",
        )
        image_props_weight_setting: tuple[str, ...] = option(
            (),
            in_fleet=True,
            help="property names and their ratios, such as os_distro=1.0; empty: each counts once",
        )

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the request has an image and the configured multiplier is not 0."""
        return self.options.image_props_weight_multiplier != 0.0 and spec.image is not None

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Per host, the sum over its instances of the ratios of the properties that they share with the request."""
        image = spec.image
        if not self.applies_to(spec) or image is None:
            return np.zeros(len(hosts))
        wanted = {name: image.properties.text_of(name) for name in image.properties}
        ratios = dict(parse_weight_setting(self.options.image_props_weight_setting))
        return np.array([self._shared(host, wanted, ratios) for host in hosts], dtype=np.float64)

    def _shared(self, host: HostView, wanted: Mapping[str, str], ratios: Mapping[str, float]) -> float:
        found = Counter(
            name
            for instance in host.instances.values()
            for name, text in instance.image_props.items()
            if wanted.get(name) == text
        )
        return sum((ratios.get(name, 0.0) if ratios else 1.0) * found[name] for name in wanted if name in found)
