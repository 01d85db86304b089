# SPDX-License-Identifier: Apache-2.0
"""Names of options: which are valid, which unknown ones are typos, and which values hold secrets.

In a section of STRICT, which only Roost and its plugins read, every unknown name is an error. In a section shared
with other services, such as [DEFAULT], only a typo of a known name is: an unknown name within a small edit distance.
Other sections are ignored.

UNUSED are options of nova that have no effect in Roost; `roost config check` reports why. LOOKALIKES are options of
other services and libraries whose names resemble those of Roost so closely that they would be reported as typos.

`redact` removes passwords from addresses before they are shown or logged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from roost.errors import OptionError, nearest
from roost.options.declare import REDACTED, Declared, declared
from roost.options.files import ADDRESS, ADDRESS_PARTS, Key, check_fleet_option, place_of
from roost.options.sources import Source

STRICT = frozenset({"filter_scheduler", "scheduler", "metrics", "trusted_computing", "roost", "roost_fake"})
"""Sections that only the scheduler and its plugins read: an unknown name in them is an error."""

PASSED_ON = {
    "keystone_authtoken": "keystoneauth",
    "oslo_concurrency": "oslo.messaging",
    "oslo_messaging_notifications": "oslo.messaging",
    "oslo_messaging_rabbit": "oslo.messaging",
    "oslo_policy": "oslo.policy",
}
"""Section -> the library that reads it from the same files; Roost does not validate its options."""

_LOG_FORM = "lines of the log have a form of their own"
_LOG_PLACE = "the log goes to a file or to standard error, which systemd keeps"
_LOG_SETUP = "the other log options say it all"

UNUSED: dict[str, dict[str, str]] = {
    "filter_scheduler": {
        "pci_in_placement": "PCI devices are always claimed with their host",
    },
    "scheduler": {
        "max_placement_results": "every host is looked at",
        "query_placement_for_routed_network_aggregates": "segments of routed networks are not looked at",
    },
    "DEFAULT": {
        "log_color": _LOG_FORM,
        "log_config": _LOG_SETUP,
        "log_config_append": _LOG_SETUP,
        "log_date_format": _LOG_FORM,
        "log_format": _LOG_FORM,
        "logging_context_format_string": _LOG_FORM,
        "logging_debug_format_suffix": _LOG_FORM,
        "logging_default_format_string": _LOG_FORM,
        "logging_exception_prefix": _LOG_FORM,
        "logging_user_identity_format": _LOG_FORM,
        "notification_driver": "write [oslo_messaging_notifications] driver",
        "notification_topics": "write [oslo_messaging_notifications] topics",
        "periodic_fuzzy_delay": "periodic tasks run at the start, then at their interval",
        "rabbit_use_ssl": "write [oslo_messaging_rabbit] ssl",
        "rpc_backend": "transport_url names the kind of broker",
        "scheduler_instance_sync_interval": "for agents; the scheduler takes what they send",
        "scheduler_manager": "there is one manager",
        "servicegroup_driver": "heartbeats are read from the database",
        "syslog_log_facility": _LOG_PLACE,
        "use_journal": _LOG_PLACE,
        "use_syslog": _LOG_PLACE,
        "verbose": "INFO is always logged",
    },
    "oslo_messaging_rabbit": {
        "rabbit_use_ssl": "write [oslo_messaging_rabbit] ssl",
    },
}
"""Section -> option -> the reason why it has no effect in Roost, as reported to the user."""

LOOKALIKES: dict[str, frozenset[str]] = {
    "DEFAULT": frozenset({"sql_min_pool_size"}),
    "database": frozenset({"min_pool_size"}),
}
"""Section -> options of other services and libraries that differ from one of Roost's by a letter or two."""


class Problem(NamedTuple):
    """An invalid name of an option or section, or an option that its source may not set."""

    error: OptionError
    key: Key
    """(section, name); the name is empty where the section is unknown."""
    may_belong_to_plugin: bool
    """True where it is no typo of a known name: it may be an option of a plugin that is not loaded yet."""
    is_refused: bool = False
    """True for an option that a fleet file may not set: no plugin is loaded to find out more."""


class OptionNames:
    """All declared options, indexed by their current and deprecated names."""

    def __init__(self, owners: Iterable[type]) -> None:
        """Index the options that the owners declare. Owners that share an option must declare it alike."""
        self.owners = {owner: declared(owner) for owner in owners}
        """Owner -> the options it declares."""
        self.options: dict[Key, Declared] = {}
        for own in self.owners.values():
            for option in own:
                self.options.setdefault((option.group, option.name), option)
        self._old = {key: each for each in self.options.values() for key in each.old}
        self._parts = {key: self.options[ADDRESS] for key in ADDRESS_PARTS if ADDRESS in self.options}
        self._numbers = {
            key
            for each in self.options.values()
            for key in ((each.group, each.name), *each.old)
            if each.in_fleet is None and each.kind in (int, float, bool)
        }
        """Names of the options that a fleet file may set to any number."""
        self._known = _by_section((*self.options, *self._old))
        self._known_in_files = _by_section((*self.options, *self._old, *self._parts))

    def find(self, section: str, name: str) -> Declared | None:
        """The option with this current or deprecated name, or derived from an option of this name; else None."""
        key = section, name
        return self.options.get(key) or self._old.get(key) or self._parts.get(key)

    def is_old(self, section: str, name: str) -> bool:
        """Whether a name that `find` knows is not the current one."""
        return (section, name) not in self.options

    def has_old(self, source: Source) -> bool:
        """Whether a source uses a deprecated name, or one from which an option is derived."""
        old = self._old.keys() | self._parts.keys()
        return any((section, name) in old for section, entries in source.sections.items() for name in entries)

    def problems(self, source: Source) -> Iterator[Problem]:
        """Invalid names in a source. A mapping is checked strictly: unlike a file, no other service reads it."""
        for section, entries in source.sections.items():
            if problem := self._section_problem(source, section):
                yield problem
            else:
                yield from self._name_problems(source, section, entries)

    def _section_problem(self, source: Source, section: str) -> Problem | None:
        known = self._known.keys() | (UNUSED.keys() if source.is_file else UNUSED.keys() - PASSED_ON.keys())
        if section in known:
            return None
        correction = correct_typo(section, known)
        if source.is_file and not correction:
            return None
        where = place_of(source.sections, section)
        error = OptionError(f"{where}: there is no section [{section}]", nearest(section, known))
        return Problem(error, (section, ""), not correction)

    def _name_problems(self, source: Source, section: str, entries: Mapping[str, Any]) -> Iterator[Problem]:
        known = (self._known_in_files if source.is_file else self._known).get(section, set())
        unused = UNUSED.get(section, {}).keys()
        for name in entries:
            if source.is_fleet and ((section, name) not in self._numbers or isinstance(entries[name], str)):
                yield from self._fleet_problems(source, (section, name))
            if name in known or name in unused or name in LOOKALIKES.get(section, ()):
                continue
            correction = correct_typo(name, known)
            if correction or self.is_strict(section) or (known and section == "DEFAULT" and not source.is_file):
                hint = f"did you mean {correction}?" if correction else nearest(name, known | unused)
                where = place_of(source.sections, section, name)
                error = OptionError(f"{where}: [{section}] has no option {name}", hint)
                yield Problem(error, (section, name), not correction)

    def _fleet_problems(self, source: Source, key: Key) -> Iterator[Problem]:
        option = self.find(*key)
        if option is not None and (error := check_fleet_option(source.sections, key, option)):
            yield Problem(error, key, False, is_refused=True)

    def is_strict(self, section: str) -> bool:
        """Whether only Roost and its plugins have options in this section."""
        return section in STRICT and section in self._known


def _by_section(keys: Iterable[Key]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for section, name in keys:
        found.setdefault(section, set()).add(name)
    return found


LONG_NAME = 12
"""Letters from which on a name may differ by two edits; shorter ones by one."""


def correct_typo(name: str, known: Iterable[str]) -> str:
    """The known name of which `name` is a typo; empty where it is none. Case and hyphens are ignored."""
    normal = _normalize(name)
    limit = 2 if len(normal) >= LONG_NAME else 1
    near = [
        (_edit_distance(normal, _normalize(each)), each)
        for each in known
        if _may_be_near(normal, _normalize(each), limit)
    ]
    edits, best = min(near, default=(limit + 1, ""))
    return best if edits <= limit else ""


def _normalize(name: str) -> str:
    return name.lower().replace("-", "_")


def _may_be_near(one: str, other: str, limit: int) -> bool:
    """A cheap lower bound on the edit distance, from lengths and letter counts: False where it exceeds the limit."""
    if abs(len(one) - len(other)) > limit:
        return False
    return (Counter(one) - Counter(other)).total() <= limit


def _edit_distance(one: str, other: str) -> int:
    """Damerau-Levenshtein distance (optimal string alignment): inserts, deletes, replacements, adjacent swaps."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        before, above, row = row, before, [i]
        for j, wanted in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                row[j] = min(row[j], above[j - 2] + 1)
    return row[-1]


ADDRESS_SUFFIXES = ("address", "connection", "url")
"""Endings of the names of secret options of which only the password and the parameters are redacted."""

_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::\d+)?"
_ONE_LOGIN = rf"[\w.-]*(?::[^\s/@,:]*)?@{_HOST}"
_LOGINS = re.compile(rf"[^:]*://{_ONE_LOGIN}(?:,{_ONE_LOGIN})*(?=[/?][^@]*$|$)")
"""SCHEME://USER:PASSWORD@HOST:PORT, repeated for a cluster of brokers. Does not match where an @ follows."""
_NO_LOGIN = re.compile(rf"[^:]*://(?:{_HOST}(?:,{_HOST})*)?(?:[/?]|$)")
_PASSWORD = re.compile(r":[^\s/@,:]*(?=@)")
_UP_TO_LAST_AT = re.compile(r"(?<=://)([^/:@]*):.*@", re.DOTALL)
_PARAMETERS = re.compile(r"\?.*", re.DOTALL)


def redact(option: Declared, value: Any) -> str:
    """A value as text. A secret becomes ***; of an address only the password and the parameters do."""
    if isinstance(value, (list, tuple)):
        return ", ".join(redact(option, each) for each in value)
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if not option.secret:
        return _without_password(text) if "://" in text else text
    if "://" in text and option.name.endswith(ADDRESS_SUFFIXES):
        return _PARAMETERS.sub(f"?{REDACTED}", _without_password(text))
    return REDACTED if text else ""


def _without_password(address: str) -> str:
    """An address with its passwords redacted. Where it is malformed, more than the password may be."""
    if logins := _LOGINS.match(address):
        return _PASSWORD.sub(f":{REDACTED}", logins[0]) + address[logins.end() :]
    if "@" in address:
        return _UP_TO_LAST_AT.sub(rf"\1:{REDACTED}@", address)
    return address if _NO_LOGIN.match(address) else f"{address.partition('://')[0]}://{REDACTED}"
