# SPDX-License-Identifier: Apache-2.0
"""Small fleets for tests of the cache, and a pipeline whose answers are compared with those of a full scan."""

from tests.engines import EAGER, FULL_SCAN
from tests.parity.answers import Request, ask, compare_answers, compare_tables
from tests.parity.twins import twin_of

from roost.scheduler.incremental.engine import RequestCache
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.search import Rules
from roost.testing import make_hosts, make_records, make_spec

GPU = "CUSTOM_GPU"
ROOMY = {"vcpus_total": 64, "total_usable_ram_mb": 65536, "total_usable_disk_gb": 1000}


def fleet(count=3, **columns):
    """Hosts h000, h001, ... with room for many instances, unless a column says otherwise."""
    return make_hosts(**({"host": [f"h{row:03}" for row in range(count)]} | ROOMY | columns))


def report(table, row, **fields):
    """A host of `fleet` reports these fields."""
    (record,) = make_records(**{name: [value] for name, value in (ROOMY | fields | {"host": f"h{row:03}"}).items()})
    table.update(row, record)


def by(weigher, multiplier):
    """The weigher with this multiplier."""
    return weigher(weigher.Options(**{weigher.multiplier_option: multiplier}))


def of_group(policy, *members, **fields):
    """A request of an instance that joins a group of these members."""
    return make_spec(instance_group={"policy": policy, "uuid": "g", "members": members, **fields})


def cache_of(table, filters=(), weighers=(), by_project=False):
    """The cache of a pipeline of these rules."""
    prefilters = PrefilterOptions(limit_tenants_to_placement_aggregate=by_project)
    return RequestCache(table, Rules(tuple(filters), tuple(weighers), prefilters))


class Compared:
    """A pipeline that caches from the first request on, on a table of its own."""

    def __init__(self, table, filters=(), weighers=()):
        self.table, self.pipeline = table, Pipeline(filters, weighers, engine=EAGER)

    def place(self, spec, *uuids):
        """The hosts of these instances, none where one has no host; a full scan on a copy must answer the same."""
        request, twin = Request(spec, list(uuids), alternates=3, seed=1, rows=None), twin_of(self.table)
        expected = ask(self.pipeline.fresh(FULL_SCAN), twin, request)
        found = ask(self.pipeline, self.table, request)
        compare_answers(found, expected)
        compare_tables(self.table, twin)
        return [each.host for each in found.decision.selections] if found.decision else []

    def place_and_release(self, spec, uuid):
        """`place`, after which the hosts are as before."""
        chosen = self.place(spec, uuid)
        for row in self.table.rows_of_instance(uuid):
            self.table.release(row, spec.for_instance(uuid))
        return chosen
