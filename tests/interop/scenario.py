# SPDX-License-Identifier: Apache-2.0
"""Everything for which nova asks a scheduler, through nova's API, with Roost in nova-scheduler's place.

The steps check zone, group, hints, disabled, named and forced hosts, and nova-compute checks groups and NUMA again.
That the choice among hosts that pass is nova's as well is what the part `same` compares.
"""

from tests.interop.nova_cloud import running_cloud, running_roost
from tests.nova_stack.audit import settled
from tests.nova_stack.scenario import run_scenario

COMPUTES = 20


def run(checks, folder):
    """All steps of the scenario, then the audit; placement has its default options."""
    with running_cloud(folder, computes=COMPUTES) as cloud, running_roost(cloud):
        result = run_scenario(cloud, on_step=lambda row: see_step(checks, row))
        checks.see("scenario", result["ok"], f"{result['passed']} of {result['of']} steps")
        audit = settled(cloud)
        checks.see("placement agrees with nova's database at the end", audit["ok"], audit["first_faults"] or "")


def see_step(checks, row):
    note = f", {row['note']}" if row["note"] else ""
    checks.see(row["step"].replace("_", " "), row["result"] == "ok", f"{row['seconds']} s{note}")
