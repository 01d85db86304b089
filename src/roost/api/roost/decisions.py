# SPDX-License-Identifier: Apache-2.0
"""What schedulers decided and why.

Administrators and readers of the system see all of every decision; members see those of their own project in nova's
words, without hosts.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Path, Query, Response

from roost.api.call import Call, CurrentCall, Target, answer
from roost.errors import BadInput, Forbidden, UnknownName
from roost.library import Scheduler
from roost.model.json_records import to_json
from roost.model.kinds import MOST
from roost.model.uuids import canonical_uuid, is_uuid
from roost.questions.past_decision import PastDecision, fleet_seen_by, why_not_explained
from roost.records.decisions import DecisionQueries, DecisionStore
from roost.scheduler.full_scan import FullScanEngine

SEE_ALL = "roost:decisions:all"
NO_OWNER: Target = {}
"""The owner of what belongs to no project."""
NO_VALID_HOST = "No valid host was found. There are not enough hosts available."
Text = Annotated[str | None, Query(min_length=1, max_length=255)]
Wanted = Annotated[str, Path(min_length=1, max_length=255)]
Record = dict[str, Any]


def list_decisions(
    call: CurrentCall,
    server: Annotated[str | None, Query(min_length=1, max_length=255, description="uuid or name")] = None,
    request_id: Text = None,
    placed: Annotated[bool | None, Query(description="those that placed something, or found no host")] = None,
    project: Text = None,
    before: Annotated[int | None, Query(ge=1, le=MOST, description="those with a smaller id")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Decisions, the latest first."""
    own = own_project(call)
    if own is not None and project not in (None, own):
        raise Forbidden("Decisions of other projects are for administrators and readers of the system.")
    limit = min(limit, call.parts.options.max_limit)
    given = {"server": server, "request_id": request_id, "placed": placed, "project": project, "limit": limit}
    filters = {
        "server": server,
        "request_id": request_id,
        "placed": placed,
        "project_id": project if own is None else own,
        "before": before,
        "limit": limit,
    }
    found = queries_of(call).list_decisions({name: value for name, value in filters.items() if value is not None})
    shown = found if own is None else [in_novas_words(each) for each in found]
    return answer({"decisions": shown} | _next_link(call, found, given))


def show(
    call: CurrentCall,
    decision: Wanted,
    with_state: Annotated[
        bool, Query(description="also the state of the fleet at that moment, if it is kept")
    ] = False,
) -> Response:
    """A decision by its id, by the id of its request, or the latest about a server."""
    record = _find(call, decision, with_state)
    return answer(record if own_project(call) is None else in_novas_words(_listed(record)))


def explain(
    call: CurrentCall,
    decision: Wanted,
    host: Annotated[str | None, Query(min_length=1, max_length=255, description="what stops this host")] = None,
    node: Annotated[str | None, Query(min_length=1, max_length=255, description="with host: its node")] = None,
) -> Response:
    """Why a decision came out as it did, from the state of all hosts at that moment.

    Where that state is no longer kept the answer is what was recorded, and `remark` says so.
    """
    if node and not host:
        raise BadInput("node: is given without its host", "give host, too")
    if own_project(call) is not None:
        if host:
            raise Forbidden("Hosts are for administrators and readers of the system.")
        return show(call, decision)
    with call.parts.fleet_work.share():
        return answer(_explained(call, _find(call, decision, with_state=True), host, node))


def _explained(call: Call, record: Record, host: str | None, node: str | None) -> Any:
    if remark := why_not_explained(record):
        if host:
            raise UnknownName(f"decision {record['id']}: {remark}")
        return {name: value for name, value in record.items() if name != "state"} | {"remark": remark}
    files = call.parts.config_files
    past = PastDecision(record, Scheduler(fleet_seen_by(record), config_files=files, engine=FullScanEngine))
    return to_json(past.explain_host(host, node) if host else past.explain())


def own_project(call: Call) -> str | None:
    """The project whose decisions alone the caller sees; None: the caller sees those of all."""
    return None if call.allows(SEE_ALL, NO_OWNER) else call.caller.project_id


def queries_of(call: Call) -> DecisionQueries:
    """Questions about decisions, in which servers are named by uuid or by a name that the caller may know."""
    servers = call.parts.servers

    def find_server(name: str) -> str:
        return canonical_uuid(name) if is_uuid(name) else servers.resolve(name, own_project(call)).uuid

    return DecisionQueries(DecisionStore(call.parts.engine, servers.times), find_server)


def in_novas_words(listed: Record) -> Record:
    """A decision as its project sees it: whether it placed the instances, without hosts and reasons."""
    shown = ("id", "created_at", "request_id", "project_id", "placed", "instances")
    return {name: listed[name] for name in shown} | {"summary": "" if listed["placed"] else NO_VALID_HOST}


def _find(call: Call, wanted: str, with_state: bool = False) -> Record:
    """A decision; UnknownName for one that the caller may not see."""
    own = own_project(call)
    unknown = UnknownName(f"Decision {wanted[:60]} could not be found.")
    try:
        record = queries_of(call).get_decision(wanted, with_state)
    except UnknownName:
        if own is None:
            raise
        raise unknown from None
    if own is not None and record["project_id"] != own:
        raise unknown
    return record


def _listed(record: Record) -> Record:
    """What a list has of a decision that was read whole."""
    data = record["data"]
    return record | {"placed": data["failed_at"] is None, "instances": data["wanted"]}


def _next_link(call: Call, found: list[Record], given: Record) -> Record:
    """The link to what comes after a full page."""
    if len(found) < given["limit"]:
        return {}
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
    query = urlencode({name: text for name, text in texts.items() if text is not None} | {"before": found[-1]["id"]})
    return {"decisions_links": [{"rel": "next", "href": call.link(f"/roost/v1/decisions?{query}")}]}
