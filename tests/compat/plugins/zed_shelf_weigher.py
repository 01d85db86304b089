# SPDX-License-Identifier: Apache-2.0
"""2022: calls the request what it is, and looks at what it is."""

from nova import objects
from nova.scheduler import weights


class ShelfWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        assert isinstance(spec_obj, objects.RequestSpec)
        assert isinstance(spec_obj.flavor, objects.Flavor)
        fits = host_state.free_ram_mb // spec_obj.flavor.memory_mb
        return -float(fits)
