# SPDX-License-Identifier: Apache-2.0
"""2016: metrics are objects; a list of them turns into what the monitor reported."""

from nova.scheduler import weights


class LoadWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        idle = 0.0
        for metric in host_state.metrics:
            if metric.name == "cpu.idle.percent":
                idle = metric.value
        fractions = {each["name"]: each["value"] for each in host_state.metrics.to_list()}
        assert fractions.get("cpu.idle.percent", 0.0) * 100 == idle
        return idle
