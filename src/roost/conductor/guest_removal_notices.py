# SPDX-License-Identifier: Apache-2.0
"""Sends the notices about guests that servers have left behind again, until agents have acknowledged them.

The first notice is sent by the process that took the step. Every conductor looks for those that were not
acknowledged; the record lets one of them send each.
"""

from __future__ import annotations

import structlog

from roost.conductor.parts import ConductorParts
from roost.errors import BrokerUnreachable, RpcError
from roost.messages.context import RequestContext
from roost.records.guest_removals import FIRST_WAIT_SECONDS, GuestRemoval

LOG = structlog.get_logger(__name__)
MOST_AT_ONCE = 500
"""Notices in one round."""
LONGEST_WAIT_SECONDS = 60.0
"""Most seconds between two notices about a guest; each wait is twice as long as the one before."""
REQUEST_ID = "req-guest-removal"
"""Of notices: the request that took the server away has its answer."""


class GuestRemovalNotices:
    """Reminds agents of guests that they have to remove."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts, self._removals = parts, parts.store.removals

    def run(self) -> None:
        """Send what is due once. Hosts that are down have to wait; what was left on deleted ones is forgotten."""
        for removal in self._removals.drop_of_missing_hosts():
            LOG.warning("host deleted: a guest may be left there", host=removal.host, server=removal.server_uuid)
        hosts_up: dict[str, bool] = {}
        for removal in self._removals.list_due(MOST_AT_ONCE):
            if removal.host not in hosts_up:
                hosts_up[removal.host] = self._parts.hosts.is_up(removal.host)
            wait = _wait_after(removal) if hosts_up[removal.host] else LONGEST_WAIT_SECONDS
            if not self._removals.postpone(removal, wait) or not hosts_up[removal.host]:
                continue
            try:
                self._send(removal)
            except BrokerUnreachable:
                return
            except RpcError as error:
                LOG.warning("notice not sent", host=removal.host, server=removal.server_uuid, reason=str(error))

    def _send(self, removal: GuestRemoval) -> None:
        notice = "refresh_instance", removal.server_uuid, removal.generation
        self._parts.messages.wake(RequestContext.new(REQUEST_ID), removal.host, *notice)
        LOG.info("guest left behind: its host is told again", host=removal.host, server=removal.server_uuid)


def _wait_after(removal: GuestRemoval) -> float:
    """Seconds from this notice to the next."""
    return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (removal.attempts + 1)))
