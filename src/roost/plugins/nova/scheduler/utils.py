# SPDX-License-Identifier: Apache-2.0
"""nova.scheduler.utils: functions on options and requests for filters and weighers."""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from roost.model.aggregate import raw_values, smallest_value
from roost.plugins.nova_shapes import original_request

LOG = logging.getLogger(__name__)

_ALL_WEIGHERS = ("nova.scheduler.weights.all_weighers", "roost.weighers.all_weighers")


def get_weight_multiplier(host_state: Any, multiplier_name: str, multiplier_config: float) -> float:
    """The smallest multiplier that the host's aggregates set, or else the configured one."""
    number = smallest_value(host_state.aggregates, multiplier_name, float)
    if number is None and raw_values(host_state.aggregates, multiplier_name):
        LOG.warning("%s of an aggregate of %s is no number", multiplier_name, host_state.host)
    return multiplier_config if number is None else number


def parse_options(
    opts: Iterable[str], sep: str = "=", converter: Callable[[str], Any] = str, name: str = ""
) -> list[tuple[str, Any]]:
    """(name, converted value) of each element. Invalid elements are left out, with one warning for all."""
    good, bad = [], []
    for each in opts:
        key, found, value = each.partition(sep)
        try:
            if not (key and found):
                raise ValueError(each)
            good.append((key, converter(value)))
        except ValueError:
            bad.append(each)
    if bad:
        LOG.warning("ignored in the options %s: %s", name, ", ".join(bad))
    return good


def request_is_rebuild(spec_obj: Any) -> bool:
    """Whether the request only checks that an instance may stay on its host with another image."""
    return bool(original_request(spec_obj).is_rebuild)


def validate_filter(name: str) -> bool:
    """Whether a filter of this name is enabled."""
    return name in cfg.CONF.filter_scheduler.enabled_filters


def validate_weigher(path: str) -> bool:
    """Whether the weigher at this path is used."""
    used = cfg.CONF.filter_scheduler.weight_classes
    return path in used or not set(_ALL_WEIGHERS).isdisjoint(used)
