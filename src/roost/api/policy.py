# SPDX-License-Identifier: Apache-2.0
"""What a caller may do: oslo.policy with the defaults of `policy_rules.py` and the files that [oslo_policy] names."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import yaml
from oslo_policy import policy as oslo_policy

from roost.api.policy_rules import RULES, Rule
from roost.clock import Clock, SystemClock
from roost.errors import Forbidden, OptionError, RoostError
from roost.options.files import one_line, read_conf
from roost.records.tokens import Caller

LOG = logging.getLogger(__name__)

IS_ADMIN = "context_is_admin"
DEFAULT_FILE = "policy.yaml"
LOOK_SECONDS = 1.0
"""How often it is looked whether a file has changed."""

Versions = tuple[tuple[Path, int, int], ...]
"""Each file of policy with the time of its last change and its size."""


class Policy:
    """Decides by the rules. Thread-safe: a changed file replaces all rules at once, an invalid one none."""

    def __init__(self, files: Sequence[Path] = (), clock: Clock | None = None) -> None:
        """`files`: config files; [oslo_policy] in them names the files of rules, and nova's defaults apply without.

        OptionError where a file of rules is missing or wrong. `clock`: by which files are looked at again.
        """
        self._files, self._clock = tuple(files), clock or SystemClock()
        self._lock = threading.Lock()
        self._versions = _versions(find_policy_files(self._files))
        self._enforcer = make_enforcer(self._files)
        self._looked_at = self._clock.monotonic()

    def is_admin(self, caller: Caller) -> bool:
        """Whether the caller is an administrator, who sees what belongs to others."""
        return self._is_allowed(caller, IS_ADMIN, {}, is_admin=False)

    def allows(self, caller: Caller, rule: str, target: Mapping[str, str | None]) -> bool:
        """Whether the rule allows the caller what belongs to `target`: project_id, user_id and the like."""
        self._follow_files()
        return self._is_allowed(caller, rule, target, is_admin=self.is_admin(caller))

    def authorize(self, caller: Caller, rule: str, target: Mapping[str, str | None]) -> None:
        """Raise Forbidden unless the rule allows it."""
        if not self.allows(caller, rule, target):
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.")

    def _is_allowed(self, caller: Caller, rule: str, target: Mapping[str, str | None], is_admin: bool) -> bool:
        credentials = {
            "user_id": caller.user_id,
            "project_id": caller.project_id or None,
            "roles": sorted(caller.roles),
            "system_scope": "all" if caller.is_system else None,
            "is_admin": is_admin,
        }
        return bool(self._enforcer.authorize(rule, dict(target), credentials))

    def _follow_files(self) -> None:
        """Read changed files; where they are wrong, the rules stay as they are, which is logged once."""
        now = self._clock.monotonic()
        if now - self._looked_at < LOOK_SECONDS or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked_at = now
            versions = _versions(_found_files(self._files))
            if versions != self._versions:
                self._versions = versions
                self._enforcer = make_enforcer(self._files)
                LOG.info("the rules of policy were read again")
        except RoostError as error:
            LOG.error("the rules of policy stay as they were: %s", error)
        finally:
            self._lock.release()


def _found_files(files: Sequence[Path]) -> list[Path]:
    try:
        return find_policy_files(files)
    except OptionError:  # `make_enforcer` says what is wrong
        return []


def find_policy_files(files: Sequence[Path]) -> list[Path]:
    """The files of rules that [oslo_policy] names, in their order: policy_file, then those of policy_dirs.

    OptionError where policy_file is set, and there is no such file.
    """
    if not files:
        return []
    conf = read_conf(files)
    oslo_policy.Enforcer(conf)  # declares the options
    wanted = conf.oslo_policy.policy_file
    path = conf.find_file(wanted)
    if path is None and wanted != DEFAULT_FILE:
        raise OptionError(f"[oslo_policy] policy_file = {wanted}: there is no such file", "name one, or leave it out")
    folders = [Path(found) for each in conf.oslo_policy.policy_dirs if (found := conf.find_file(each))]
    inside = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir())]
    return [*([Path(path)] if path else []), *(file for file in inside if file.is_file() and file.name[0] != ".")]


def make_enforcer(files: Sequence[Path]) -> oslo_policy.Enforcer:
    """An enforcer of the defaults and of what files change; OptionError for a file that is wrong."""
    enforcer = oslo_policy.Enforcer(read_conf(files), use_conf=False)
    checks = {rule.name: rule.check for rule in RULES}
    for path in find_policy_files(files):
        checks |= read_policy_file(path)
    enforcer.register_defaults([_default(rule) for rule in RULES])
    enforcer.set_rules(oslo_policy.Rules.from_dict(checks, enforcer.default_rule))
    enforcer.skip_undefined_check = True  # a file of nova's refers to rules that only nova has
    if not enforcer.check_rules():
        raise OptionError("[oslo_policy] rules refer to one another in a circle", "see the log for their names")
    return enforcer


def read_policy_file(path: Path) -> dict[str, str]:
    """Name -> check of each rule in a file, which is YAML; OptionError for the first thing that is wrong."""
    where = f"[oslo_policy] {path}"
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise OptionError(f"{where}: {one_line(error)}", "it has lines such as: RULE: role:admin") from None
    if not isinstance(content, dict):
        raise OptionError(f"{where}: it is no mapping", "it has lines such as: RULE: role:admin")
    for name, check in content.items():
        if not isinstance(check, str) or not _is_check(check):
            raise OptionError(f"{where}: {name}: {str(check)[:80]!r} is no check", "as in: role:admin or rule:other")
    return {str(name): check for name, check in content.items()}


def _is_check(text: str) -> bool:
    """Whether oslo.policy understands a check; one that it does not it takes for `!`, which refuses every caller."""
    parsed = oslo_policy.Rules.from_dict({"rule": text})["rule"]
    return str(parsed) != "!" or text.strip() == "!"


def _default(rule: Rule) -> oslo_policy.RuleDefault:
    return oslo_policy.RuleDefault(rule.name, rule.check, rule.description, scope_types=list(rule.scopes) or None)


def _versions(paths: Sequence[Path]) -> Versions:
    found: list[tuple[Path, int, int]] = []
    for path in paths:
        with suppress(FileNotFoundError):
            state = path.stat()
            found.append((path, state.st_mtime_ns, state.st_size))
    return tuple(found)
