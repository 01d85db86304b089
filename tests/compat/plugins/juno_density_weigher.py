# SPDX-License-Identifier: Apache-2.0
"""2014: the multiplier under the name it had at first."""

from nova.scheduler import weights


class DensityWeigher(weights.BaseHostWeigher):
    def _weight_multiplier(self):
        return 2.0

    def _weigh_object(self, host_state, weight_properties):
        """Higher weights win."""
        return host_state.num_instances
