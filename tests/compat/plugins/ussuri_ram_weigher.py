# SPDX-License-Identifier: Apache-2.0
"""2020: derived from a built-in weigher."""

from nova.scheduler.weights.ram import RAMWeigher


class HalfRAMWeigher(RAMWeigher):
    def weight_multiplier(self, host_state):
        return 0.5 * super().weight_multiplier(host_state)

    def _weigh_object(self, host_state, weight_properties):
        return super()._weigh_object(host_state, weight_properties) / 2
