# SPDX-License-Identifier: Apache-2.0
"""2014 and later: habits that plugins have, each in a filter of its own."""

import copy
import json

from oslo.config import cfg

from nova.db import api as db_api
from nova.scheduler import filters

CONF = cfg.CONF
CONF.import_opt("ram_allocation_ratio", "nova.scheduler.filters.ram_filter")
CONF.import_opt("allow_resize_to_same_host", "nova.compute.api")
CONF.register_opt(cfg.StrOpt("colour_of_the_rack"))
CONF.unregister_opt(cfg.StrOpt("colour_of_the_rack"))
CONF.register_opt(cfg.IntOpt("gpu_weight_multiplier", default=3), group="filter_scheduler")


def plain_decorator(function):
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


class OneByOneFilter(filters.BaseHostFilter):
    def _filter_one(self, obj, filter_properties):
        return obj.host != "a1"


class AsksOneByOneFilter(filters.BaseHostFilter):
    def filter_all(self, filter_obj_list, spec_obj):
        return [obj for obj in filter_obj_list if self._filter_one(obj, spec_obj)]

    def host_passes(self, host_state, spec_obj):
        return host_state.host != "a2"


class WeedingFilter(filters.BaseHostFilter):
    def filter_all(self, filter_obj_list, spec_obj):
        for host in list(filter_obj_list):
            if host.host.startswith("a"):
                filter_obj_list.remove(host)
        return filter_obj_list


class FlavorFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        flavor = filter_properties["instance_type"]
        return flavor.extra_specs == flavor["extra_specs"] and not hasattr(flavor, "colour") and flavor.vcpus == 1


class ContextFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return spec_obj._context.project_id == "blue" and not spec_obj._context.elevated().roles


class OtherNameFilter(filters.BaseHostFilter):
    @plain_decorator
    def host_passes(self, host_state, props):
        return props["context"].project_id == props.get("context").tenant == "blue"


class CopyingFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        twin = copy.deepcopy(spec_obj)
        twin.flavor.extra_specs["noted"] = "yes"
        (twin.ignore_hosts or []).append("z")
        texts = [json.dumps(each) for each in (spec_obj.flavor.extra_specs, host_state.stats, host_state.service)]
        is_alone = "noted" not in spec_obj.flavor.extra_specs
        return is_alone and all(texts) and isinstance(spec_obj.flavor.extra_specs, dict)


class OptionFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        seen = CONF.ram_allocation_ratio, CONF.allow_resize_to_same_host, CONF.quota.cores, CONF.compute_topic
        return CONF.host != "" and seen == (2.5, True, 20, "compute")


class GpuFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        racks = db_api.aggregate_metadata_get_by_host(None, host_state.host, key="rack")
        return CONF.filter_scheduler.gpu_weight_multiplier == 7 and racks == {"rack": {"r2"}}


def some_filters():
    yield OneByOneFilter
    yield WeedingFilter
