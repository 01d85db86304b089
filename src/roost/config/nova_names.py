# SPDX-License-Identifier: Apache-2.0
"""Names in nova.conf that are not options of Roost but are no errors either.

UNUSED are options of nova that have no effect in Roost; `roost config check` reports why. LOOKALIKES are options of
other services and libraries whose names resemble those of Roost so closely that they would be reported as typos.
"""

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
