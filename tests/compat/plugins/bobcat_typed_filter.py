# SPDX-License-Identifier: Apache-2.0
"""2023: type hints, names from the modules that define them."""

from nova.objects.request_spec import RequestSpec
from nova.scheduler.filters import BaseHostFilter
from nova.scheduler.host_manager import HostState


class TypedFilter(BaseHostFilter):
    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        assert isinstance(host_state, HostState)
        assert isinstance(spec_obj, RequestSpec)
        assert "flavor" in spec_obj and "instance_group" not in spec_obj
        assert str(host_state).startswith(f"({host_state.host}, {host_state.nodename}) ram:")
        return host_state.nodename.endswith("1")
