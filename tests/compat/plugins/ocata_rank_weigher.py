# SPDX-License-Identifier: Apache-2.0
"""2017: all hosts together."""

from nova.scheduler import weights
from nova import weights as base


class RankWeigher(weights.BaseHostWeigher):
    def weight_multiplier(self):
        return 1000.0

    def weigh_objects(self, weighed_obj_list, weight_properties):
        for each in weighed_obj_list:
            assert each.to_dict() == {"weight": 0.0, "host": each.obj.host}
        order = sorted(each.obj.host for each in weighed_obj_list)
        ranks = [order.index(each.obj.host) for each in weighed_obj_list]
        return [1.0 - each for each in base.normalize(ranks)]
