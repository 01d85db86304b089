#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Answers cases with the real nova: reads one case per line, writes one answer per line, flushed after each.

    NOVA_ENV/bin/python -W ignore conformance/oracle.py < cases.jsonl > answers.jsonl

Runs in an environment that has nova and not Roost; the format is tests/conformance/FORMAT.md. The syntax is that of
Python 3.6, which nova 18.3.0 (Rocky) needs.
"""

import contextlib
import json
import os
import sys
from collections import OrderedDict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import novafix as fx

fx.setup()

from nova import context as nova_context  # noqa: E402
from nova import objects  # noqa: E402


# ImagePropertiesWeigher looks the host's cell up in the API database.
@contextlib.contextmanager
def _target_cell(ctxt, cell):
    yield ctxt


def _cell_by_uuid(ctxt, uuid):
    return objects.CellMapping(uuid=uuid, name="cell")


def _fill_metadata(self):
    # Instances placed earlier in the same request are bare stubs in nova; the
    # real call reads the database.  They count as having no image properties.
    for inst in self:
        if "system_metadata" not in inst:
            inst.system_metadata = {}
        if "image_ref" not in inst:
            inst.image_ref = ""


objects.InstanceList.fill_metadata = _fill_metadata
nova_context.target_cell = _target_cell
objects.CellMapping.get_by_uuid = staticmethod(_cell_by_uuid)


def run_case(case):
    """The answer of nova to one case."""
    out = OrderedDict([("id", case.get("id"))])
    weighers = case.get("weighers") or OrderedDict()
    try:
        set_options(case.get("options") or {}, weighers)
        hm = fx.host_manager(case.get("filters") or [], list(weighers))
        now = fx.utcnow()
        spec = fx.request_spec(case["request"])
    except Exception as e:
        out["error"] = err(e)
        return out
    out["alone"] = OrderedDict((f.__class__.__name__, ask_alone(f, case, spec, now)) for f in hm.enabled_filters)
    filtered = ask_chain(out, hm, case, spec, now)
    if filtered:
        ask_weights(out, hm, filtered, spec)
    ask_selections(out, hm, case, now)
    return out


def set_options(options, weighers):
    fx.clear_options()
    for k, v in options.items():
        fx.set_option(k, v)
    for name, mult in weighers.items():
        group, option = fx.WEIGHER_OPTS[name]
        if mult is not None:
            fx.set_option(group + "." + option, mult)


def ask_alone(rule, case, spec, now):
    """The hosts that one filter passes when run alone on all hosts, or its error."""
    try:
        return [key(h) for h in rule.filter_all(fresh(case, now), spec)]
    except Exception as e:
        return {"error": err(e)}


def ask_chain(out, hm, case, spec, now):
    """The hosts after each filter, recorded in the real get_filtered_hosts, and the remaining hosts."""
    steps = []
    orig = hm.filter_handler.get_filtered_objects

    def traced(filters, objs, spec_obj, idx=0):
        objs = list(objs)
        steps.append({"filter": None, "passed": [key(h) for h in objs]})
        for f in filters:
            if not f.run_filter_for_index(idx):
                continue
            objs = list(orig([f], objs, spec_obj, idx))
            steps.append({"filter": f.__class__.__name__, "passed": [key(h) for h in objs]})
            if not objs:
                break
        return objs

    out["chain"] = steps
    hm.filter_handler.get_filtered_objects = traced
    try:
        filtered = list(hm.get_filtered_hosts(iter(fresh(case, now)), spec, case.get("index", 0)))
        out["filtered"] = [key(h) for h in filtered]
    except Exception as e:
        filtered = []
        out["filter_error"] = err(e)
    hm.filter_handler.get_filtered_objects = orig
    return filtered


def ask_weights(out, hm, filtered, spec):
    """Raw weights of each weigher, and the weighed hosts, best first."""
    try:
        raw = OrderedDict()
        wrapped = [hm.weight_handler.object_class(h, 0.0) for h in filtered]
        for w in hm.weighers:
            raw[w.__class__.__name__] = {
                "raw": list(w.weigh_objects(wrapped, spec)),
                "multiplier": [multiplier(w, h) for h in filtered],
            }
        weighed = hm.get_weighed_hosts(filtered, spec)
        out["raw_weights"] = raw
        out["weights"] = [[*key(w.obj), w.weight] for w in weighed]
        out["order"] = [key(w.obj) for w in weighed]
    except Exception as e:
        out["weigh_error"] = err(e)


def ask_selections(out, hm, case, now):
    """The selections of the real manager: a host per instance, each consumed, and the alternates."""
    req = case["request"]
    n = req.get("num_instances", 1)
    alts = case.get("num_alternates", 2)
    try:
        spec = fx.request_spec(req)
        hosts = fresh(case, now)
        sm = scheduler_manager(hm)
        uuids = req.get("instance_uuids")
        sel = sm._legacy_find_hosts(fx.context(), n, spec, hosts, alts, instance_uuids=uuids)
        out["selections"] = [
            [
                [s.service_host, s.nodename, s.availability_zone if "availability_zone" in s.fields else None]
                for s in lst
            ]
            for lst in sel
        ]
        chosen = {(lst[0].service_host, lst[0].nodename) for lst in sel}
        out["consumed"] = [
            {
                "host": h.host,
                "node": h.nodename,
                "free_ram_mb": h.free_ram_mb,
                "free_disk_mb": h.free_disk_mb,
                "vcpus_used": h.vcpus_used,
                "num_instances": h.num_instances,
                "num_io_ops": h.num_io_ops,
            }
            for h in hosts
            if (h.host, h.nodename) in chosen
        ]
    except Exception as e:
        out["selections"] = {"error": err(e)}


def scheduler_manager(hm):
    """The real SchedulerManager with the host manager hm, without its __init__, which needs bus and placement."""
    cls = fx.scheduler_class()
    sm = cls.__new__(cls)
    sm.host_manager = hm
    return sm


def multiplier(weigher, host):
    try:
        return weigher.weight_multiplier(host)
    except TypeError:  # older releases: not per host
        return weigher.weight_multiplier()


def fresh(case, now):
    return [fx.host_state(h, now) for h in case["hosts"]]


def key(hs):
    return [hs.host, hs.nodename]


def err(e):
    return {"type": type(e).__name__, "message": str(e.args[0] if e.args else "")}


def main():
    """Answer the cases on stdin, line by line, until it ends."""
    for line in sys.stdin:
        if line.strip():
            case = json.loads(line, object_pairs_hook=OrderedDict)
            sys.stdout.write(json.dumps(run_case(case)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
