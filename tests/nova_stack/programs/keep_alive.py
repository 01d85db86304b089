# SPDX-License-Identifier: Apache-2.0
"""Keep paper hosts alive: their heartbeats, and the list of servers that every nova-compute sends to schedulers.

keep_alive.py NOVA_CONF CELL_DATABASE SECONDS
"""

import collections
import sys
import time

import sqlalchemy
from nova import config, context, objects

BEAT = (
    "update services set last_seen_up = utc_timestamp(), updated_at = utc_timestamp(),"
    " report_count = report_count + 1 where host like 'paper%'"
)
HOSTS = "select host from compute_nodes where host like 'paper%'"


def main(config_file, address, seconds):
    config.parse_args(["nova-paper", "--config-file", config_file])
    objects.register_all()
    from nova.scheduler import rpcapi

    engine, scheduler = sqlalchemy.create_engine(address), rpcapi.SchedulerAPI()
    rounds, sent = collections.Counter(), {}
    while True:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(BEAT))
            hosts = list(connection.execute(sqlalchemy.text(HOSTS)).scalars())
        for host in hosts:
            # nova-scheduler trusts the list of a new host when it comes again.
            if rounds[host] < 3 or time.monotonic() > sent[host] + 120:
                scheduler.sync_instance_info(context.get_admin_context(), host, [])
                rounds[host], sent[host] = rounds[host] + 1, time.monotonic()
        time.sleep(seconds)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
