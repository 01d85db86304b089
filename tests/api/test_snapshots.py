# SPDX-License-Identifier: Apache-2.0
"""/roost/v1/snapshot: the file that `roost snapshot save` writes."""

from tests.api.placed import create

from roost.sources.snapshot import Snapshot

PATH = "/roost/v1/snapshot"


def test_a_snapshot_has_the_fleet_and_its_servers(admin, cloud):
    server = create(cloud, "ours")
    answer = admin.get(PATH)
    assert answer.headers["content-type"] == "application/gzip"
    found = Snapshot.of_bytes(answer.content, "the answer")
    assert len(found.fleet.table) == 10
    assert server in {each["id"] for each in found.servers}


def test_readers_of_the_system_may_take_one_and_members_may_not(cloud, member):
    assert cloud.client("system_reader").get(PATH).status_code == 200
    assert member.get(PATH).status_code == 403
