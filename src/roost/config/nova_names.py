# SPDX-License-Identifier: Apache-2.0
"""Options that nova has in the sections Roost shares with it, and that change nothing here.

A nova.conf that sets one of them is read without complaint; any other unknown name there is an error.
"""

UNUSED: dict[str, frozenset[str]] = {
    "filter_scheduler": frozenset(
        {
            "aggregate_image_properties_isolation_namespace",
            "aggregate_image_properties_isolation_separator",
            "baremetal_enabled_filters",
            "build_failure_weight_multiplier",
            "cross_cell_move_weight_multiplier",
            "hypervisor_version_weight_multiplier",
            "image_properties_default_architecture",
            "image_props_weight_multiplier",
            "image_props_weight_setting",
            "io_ops_weight_multiplier",
            "isolated_hosts",
            "isolated_images",
            "max_instances_per_host",
            "max_io_ops_per_host",
            "num_instances_weight_multiplier",
            "pci_in_placement",
            "pci_weight_multiplier",
            "restrict_isolated_hosts_to_isolated_images",
            "soft_affinity_weight_multiplier",
            "soft_anti_affinity_weight_multiplier",
            "track_instance_changes",
            "use_baremetal_filters",
        }
    ),
    "metrics": frozenset({"required", "weight_multiplier", "weight_of_unavailable"}),
    "scheduler": frozenset(
        {
            "discover_hosts_in_cells_interval",
            "driver",
            "enable_isolated_aggregate_filtering",
            "host_manager",
            "image_metadata_prefilter",
            "limit_tenants_to_placement_aggregate",
            "max_placement_results",
            "periodic_task_interval",
            "placement_aggregate_required_for_tenants",
            "query_placement_for_availability_zone",
            "query_placement_for_image_type_support",
            "query_placement_for_routed_network_aggregates",
            "workers",
        }
    ),
}
