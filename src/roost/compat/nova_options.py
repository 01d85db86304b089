# SPDX-License-Identifier: Apache-2.0
"""Options of nova that Roost does not use but plugins read: nova's names, from the same files."""

from __future__ import annotations

from oslo_config import cfg

NOVA_OPTIONS: dict[str, tuple[cfg.Opt, ...]] = {
    "DEFAULT": (
        cfg.StrOpt("servicegroup_driver", default="db"),
        cfg.IntOpt("periodic_fuzzy_delay", default=60),
        cfg.IntOpt("scheduler_instance_sync_interval", default=120),
        cfg.IntOpt("migrate_max_retries", default=-1),
        cfg.BoolOpt("allow_resize_to_same_host", default=False),
        cfg.BoolOpt("allow_migrate_to_same_host", default=False),
        cfg.IntOpt("max_concurrent_builds", default=10),
        cfg.IntOpt("max_concurrent_live_migrations", default=1),
        cfg.IntOpt("resize_confirm_window", default=0),
        cfg.IntOpt("shelved_offload_time", default=0),
        cfg.IntOpt("instance_build_timeout", default=0),
        cfg.StrOpt("internal_service_availability_zone", default="internal"),
        cfg.StrOpt("default_schedule_zone"),
        cfg.StrOpt("compute_topic", default="compute"),
        cfg.IntOpt("long_rpc_timeout", default=1800),
        cfg.IntOpt("rpc_response_timeout", default=60),
        cfg.StrOpt("multi_instance_display_name_template", default="%(name)s-%(count)d"),
    ),
    "api": (cfg.IntOpt("max_limit", default=1000),),
    "conductor": (cfg.IntOpt("workers"),),
    "filter_scheduler": (cfg.BoolOpt("pci_in_placement", default=False),),
    "notifications": (cfg.StrOpt("notify_on_state_change"),),
    "quota": (
        cfg.IntOpt("instances", default=10),
        cfg.IntOpt("cores", default=20),
        cfg.IntOpt("ram", default=51200),
        cfg.IntOpt("server_groups", default=10),
        cfg.IntOpt("server_group_members", default=10),
        cfg.BoolOpt("recheck_quota", default=True),
        cfg.BoolOpt("count_usage_from_placement", default=False),
    ),
    "scheduler": (
        cfg.IntOpt("max_placement_results", default=1000),
        cfg.IntOpt("discover_hosts_in_cells_interval", default=-1),
    ),
    "upgrade_levels": (cfg.StrOpt("scheduler"),),
    "workarounds": (
        cfg.BoolOpt("disable_group_policy_check_upcall", default=False),
        cfg.BoolOpt("disable_fallback_pcpu_query", default=False),
        cfg.BoolOpt("skip_hypervisor_version_check_on_lm", default=False),
    ),
}
"""Section -> options. Options that Roost itself declares take precedence."""
