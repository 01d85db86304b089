# SPDX-License-Identifier: Apache-2.0
"""prep_resize: choose a host for an instance that gets another size, and tell that host to prepare for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.interface import Transport
from roost.messages.objects.selections import versions_for
from roost.model import RequestSpec
from roost.scheduler.legacy.attempts import count_attempt, properties_for
from roost.scheduler.legacy.claim_restore import leave_tried_hosts, restored_on_failure
from roost.scheduler.legacy.instance_records import fields_of, sent_uuid_of, uuid_of
from roost.scheduler.legacy.outcomes import ACTIVE, ERROR, NO_HOST, Outcomes, reason_of
from roost.scheduler.legacy.retry_data import tried_hosts
from roost.scheduler.legacy.run_instance import COMPUTE_VERSION
from roost.scheduler.replies import as_dicts

if TYPE_CHECKING:
    from roost.scheduler.manager import SchedulerManager

LOG = structlog.get_logger(__name__)

METHOD = "prep_resize"


class Resize(NamedTuple):
    """A request to change the size of an instance."""

    context: RequestContext
    uuid: str
    instance: Any
    request_spec: Mapping[str, Any]
    filter_properties: Mapping[str, Any]
    handed_on: Mapping[str, Any]
    """Arguments that are passed on to the host."""


class PrepResize:
    """Handles prep_resize. May be shared by threads."""

    def __init__(self, manager: SchedulerManager, ledger: Ledger, transport: Transport, outcomes: Outcomes) -> None:
        self._manager, self._ledger, self._transport, self._outcomes = manager, ledger, transport, outcomes

    def prepare(
        self,
        context: RequestContext,
        instance: Any,
        request_spec: Mapping[str, Any],
        filter_properties: Mapping[str, Any],
        handed_on: Mapping[str, Any],
    ) -> None:
        """Choose a host and cast prep_resize to it. Without a host the instance stays as it was; nothing is raised.

        Quota reservations are not rolled back here: nova expires the ones that are not committed.
        """
        uuid = uuid_of(instance, "instance")
        complete = {
            "instance_type": handed_on["instance_type"],
            "instance_uuids": [sent_uuid_of(instance, "instance")],
        }
        complete |= {**request_spec, "num_instances": 1}
        resize = Resize(context, uuid, instance, complete, filter_properties, handed_on)
        try:
            self._prepare(resize)
        except NO_HOST as error:
            self._fail(resize, error, str(fields_of(instance, "instance").get("vm_state") or ACTIVE))
        except Exception as error:
            self._fail(resize, error, ERROR)
            raise

    def _prepare(self, resize: Resize) -> None:
        properties = self._count_this_attempt(resize)
        spec, _ = self._manager.parse_request(resize.request_spec, properties)
        with restored_on_failure(self._ledger, [resize.uuid]):
            self._place_and_tell(resize, spec, properties)

    def _place_and_tell(self, resize: Resize, spec: RequestSpec, properties: Mapping[str, Any]) -> None:
        placement = self._manager.place(resize.context, spec, [resize.uuid], is_announced=False)
        (chosen,) = as_dicts(placement, self._manager.driver.names_nodes, versions_for(None))
        told = {
            "instance": resize.instance,
            "request_spec": resize.request_spec,
            "filter_properties": properties_for(properties, chosen),
            "node": chosen["nodename"],
            **resize.handed_on,
        }
        self._transport.cast(f"compute.{chosen['host']}", METHOD, COMPUTE_VERSION, told, resize.context)

    def _count_this_attempt(self, resize: Resize) -> dict[str, Any]:
        """Increment the attempt counter; release what the instance holds on hosts that were tried before."""
        before = resize.filter_properties
        properties = count_attempt(before, self._manager.settings, resize.uuid)
        fields = fields_of(resize.instance, "instance")
        home = (str(fields.get("host") or ""), str(fields.get("node") or fields.get("host") or ""))
        leave_tried_hosts(self._ledger, self._manager.replica, resize.uuid, tried_hosts(before), home)
        return properties

    def _fail(self, resize: Resize, error: Exception, vm_state: str) -> None:
        if reserved := resize.handed_on.get("reservations"):
            LOG.info("reservations of quota are left to run out", instance=resize.uuid, count=len(reserved))
        reason = reason_of(error, self._manager.driver)
        spelt = sent_uuid_of(resize.instance, "instance")
        self._outcomes.failed(resize.context, METHOD, spelt, reason, resize.request_spec, vm_state=vm_state)
