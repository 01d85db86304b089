# SPDX-License-Identifier: Apache-2.0
"""Separate boots at the same time go to different hosts."""

from tests.interop.nova_cloud import running_cloud, running_roost
from tests.nova_stack.api_client import boot

COMPUTES, BOOTS, AT_A_TIME, MOST_PER_HOST = 20, 50, 4, 5


def run(checks, folder):
    """Boot servers on equal hosts through nova's API, several requests at a time."""
    with running_cloud(folder, computes=COMPUTES) as cloud, running_roost(cloud):
        result = boot(cloud, BOOTS, "1,512,1", AT_A_TIME)
    checks.see(f"{BOOTS} boots, {AT_A_TIME} at a time, are active", result["ok"], dict(result["status"]))
    checks.see("placement agrees with nova's database", result["audit"]["ok"], result["audit"]["first_faults"] or "")
    most = max(result["hosts"].values())
    found = f"{most} on one host, {len(result['hosts'])} hosts used, {result['seconds']} s"
    checks.see(f"at most {MOST_PER_HOST} of them on one of {COMPUTES} equal hosts", most <= MOST_PER_HOST, found)
