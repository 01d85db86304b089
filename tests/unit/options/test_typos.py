# SPDX-License-Identifier: Apache-2.0
"""A slip of the pen is told from a name of somebody else."""

import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.options.declare import declared
from roost.options.files import ADDRESS_PARTS
from roost.options.names import LOOKALIKES, UNUSED, correct_typo
from roost.scheduler.all_options import option_owners

OURS = {
    each
    for owner in option_owners()
    for option in declared(owner)
    for each in ((option.group, option.name), *option.old)
}
OURS |= ADDRESS_PARTS
IN_DEFAULT = sorted(name for group, name in OURS if group == "DEFAULT")

NOVA_DEFAULT = """
    allow_migrate_to_same_host allow_resize_to_same_host api_paste_config api_rate_limit auth_strategy
    aws_access_key backdoor_port backdoor_socket backlog bandwidth_poll_interval bandwidth_update_interval
    base_dir_name bindir block_device_allocate_retries block_device_allocate_retries_interval boot_script_template
    ca_file ca_path cert cert_manager cert_topic client_socket_timeout compute_api_class compute_available_monitors
    compute_driver compute_fill_first_cost_fn_weight compute_link_prefix compute_manager compute_monitors
    compute_stats_class compute_topic compute_unique_key conductor_manager conductor_topic config_drive_cdrom
    config_drive_format connection_type console_driver console_host console_manager console_public_hostname
    console_token_ttl console_topic consoleauth_manager consoleauth_topic control_exchange cpu_allocation_ratio
    create_unique_mac_address_attempts crl_file daemon db_backend db_driver default_access_ip_network_name
    default_ephemeral_format default_flavor default_floating_pool default_instance_type default_notification_level
    default_publisher_id default_schedule_zone defer_iptables_apply dhcp_domain dhcp_lease_time dhcpbridge
    dhcpbridge_flagfile disable_libvirt_livesnapshot disk_allocation_ratio dmz_cidr dmz_mask dmz_net dns_server
    ebtables_exec_attempts ebtables_retry_interval ec2_host ec2_listen ec2_path ec2_port ec2_private_dns_show_ip
    ec2_scheme ec2_strict_validation ec2_timestamp_expiry ec2_workers enable_instance_password enable_network_quota
    enable_new_services enabled_apis enabled_ssl_apis fake_call fake_network fake_rabbit fatal_exception_format_errors
    firewall_driver fixed_ip_disassociate_timeout fixed_range_v6 flat_injected flat_interface flat_network_bridge
    flat_network_dns floating_ip_dns_manager force_config_drive force_dhcp_release force_raw_images
    force_snat_range forward_bridge_interface gateway gateway_v6 glance_api_insecure glance_api_servers glance_host
    glance_num_retries glance_port glance_protocol heal_instance_info_cache_interval heartbeat_in_pthread
    host_to_register image_cache_manager_interval image_cache_subdirectory_name image_decryption_dir
    image_handlers image_service initial_cpu_allocation_ratio initial_disk_allocation_ratio
    initial_ram_allocation_ratio injected_network_template instance_build_timeout instance_delete_interval
    instance_dns_domain instance_dns_manager instance_format instance_name_template instance_usage_audit
    instance_usage_audit_period instance_uuid_format instances_path internal_service_availability_zone
    iptables_bottom_regex iptables_drop_action iptables_top_regex ipv6_backend isolated_hosts isolated_images
    iscsi_helper key_file keys_path l3_lib ldap_dns_base_dn ldap_dns_password ldap_dns_servers ldap_dns_url
    least_cost_functions linuxnet_interface_driver linuxnet_ovs_integration_bridge live_migration_retry_count
    lock_path log_config log_config_append log_date_format log_dir log_file log_format log_options
    logging_context_format_string logging_debug_format_suffix logging_default_format_string
    logging_exception_prefix long_rpc_timeout manager matchmaker_heartbeat_freq matchmaker_heartbeat_ttl
    max_age max_concurrent_builds max_concurrent_live_migrations max_concurrent_snapshots max_io_ops_per_host
    max_instances_per_host max_kernel_ramdisk_size max_local_block_devices max_logfile_count max_logfile_size_mb
    maximum_instance_delete_attempts memcached_servers metadata_cache_expiration metadata_host metadata_listen
    metadata_listen_port metadata_manager metadata_port metadata_workers migrate_max_retries mkisofs_cmd
    monkey_patch monkey_patch_modules multi_host multi_instance_display_name_template my_block_storage_ip my_ip
    network_allocate_retries network_api_class network_device_mtu network_driver network_manager network_size
    network_topic networks_path neutron_admin_auth_url neutron_admin_password neutron_admin_tenant_name
    neutron_admin_username neutron_api_insecure neutron_auth_strategy neutron_default_tenant_id
    neutron_extension_sync_interval neutron_metadata_proxy_shared_secret neutron_ovs_bridge neutron_region_name
    neutron_url neutron_url_timeout non_inheritable_image_properties notification_driver notification_topics
    notification_transport_url notification_publisher_id notify_api_faults notify_on_any_change
    notify_on_state_change novncproxy_base_url novncproxy_host novncproxy_port null_kernel num_networks
    osapi_compute_ext_list osapi_compute_extension osapi_compute_link_prefix osapi_compute_listen
    osapi_compute_listen_port osapi_compute_unique_server_name_scope osapi_compute_workers osapi_glance_link_prefix
    osapi_hide_server_address_states osapi_max_limit osapi_max_request_body_size ovs_vsctl_timeout
    password_length pci_passthrough_whitelist periodic_interval pointer_model policy_default_rule policy_dirs
    policy_file port_range preallocate_images project_cert_subject publish_errors public_interface pybasedir
    pyqa quota_cores quota_driver quota_fixed_ips quota_floating_ips quota_injected_file_content_bytes
    quota_injected_files quota_instances quota_key_pairs quota_metadata_items quota_ram quota_server_groups
    rabbit_ha_queues rabbit_hosts rabbit_login_method rabbit_max_retries rabbit_retry_backoff
    rabbit_retry_interval rabbit_use_ssl ram_allocation_ratio reboot_timeout reclaim_instance_interval record
    region_list remove_unused_base_images remove_unused_original_minimum_age_seconds remove_unused_resized
    report_interval rescue_timeout reservation_expire reserved_host_cpus reserved_host_disk_mb
    reserved_host_memory_mb reserved_huge_pages resize_confirm_window resize_fs_using_block_device
    resume_guests_state_on_host_boot rootwrap_config routing_source_ip rpc_backend rpc_cast_timeout rpc_conn_pool_size
    rpc_ping_enabled rpc_poll_timeout rpc_zmq_bind_address rpc_zmq_contexts rpc_zmq_host rpc_zmq_ipc_dir
    rpc_zmq_matchmaker rpc_zmq_port rpc_zmq_topic_backlog run_external_periodic_tasks s3_access_key
    s3_affix_tenant s3_host s3_listen s3_port s3_secret_key s3_use_ssl scheduler_instance_sync_interval
    scheduler_manager secure_proxy_ssl_header security_group_api send_arp_for_ha service_neutron_metadata_proxy
    servicegroup_driver share_dhcp_address shelved_offload_time shelved_poll_interval shutdown_timeout
    snapshot_name_template source_is_ipv6 spicehtml5proxy_host spicehtml5proxy_port sql_connection_debug
    sql_connection_trace sql_max_retries sql_min_pool_size sql_retry_interval sqlite_clean_db sqlite_db ssl_ca_file
    ssl_cert_file ssl_key_file ssl_only state_path sync_power_state_interval sync_power_state_pool_size
    syslog_log_facility tcp_keepidle teardown_unused_network_gateway tempdir timeout_nbd
    transport_url until_refresh update_dns_entries update_resources_interval use_cow_images use_forwarded_for
    use_ipv6 use_journal use_eventlog use_local use_network_dns_servers use_neutron use_neutron_default_nets
    use_project_ca use_rootwrap_daemon use_single_default_gateway use_ssl use_syslog use_syslog_rfc_format
    vcpu_pin_set vendordata_driver vendordata_jsonfile_path verbose vif_plugging_is_fatal vif_plugging_timeout
    virt_mkfs vlan_interface vlan_start vnc_enabled vnc_keymap vncserver_listen vncserver_proxyclient_address
    volume_api_class volume_usage_poll_interval volumes_path vpn_ip vpn_key_suffix vpn_start vswitch_name web
    wsgi_default_pool_size wsgi_keep_alive wsgi_log_format xvpvncproxy_base_url xvpvncproxy_host
    xvpvncproxy_port zombie_instance_updated_at_window
""".split()
"""Options that nova's services have had in [DEFAULT], from Icehouse to today."""

NOVA_DATABASE = """
    asyncio_connection backend connection_debug connection_parameters connection_trace db_inc_retry_interval
    db_max_retries db_max_retry_interval db_retry_interval max_retries min_pool_size mysql_enable_ndb mysql_sql_mode
    mysql_wsrep_sync_wait pool_timeout retry_interval slave_connection sqlite_db synchronous_reader
    use_db_reconnect use_tpool
""".split()


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("scheduler_default_filtres", "scheduler_default_filters"),
        ("scheduler_default_filter", "scheduler_default_filters"),
        ("sheduler_driver", "scheduler_driver"),
        ("Scheduler_Driver", "scheduler_driver"),
        ("scheduler-driver", "scheduler_driver"),
        ("service_downtime", "service_down_time"),
        ("transport_ulr", "transport_url"),
        ("hots", "host"),
        ("hosts", "host"),
        ("debugg", "debug"),
        ("rabbit_pasword", "rabbit_password"),
        ("ram_weight_multiplyer", "ram_weight_multiplier"),
    ],
)
def test_a_slip_is_recognised(written, wanted):
    assert correct_typo(written, IN_DEFAULT) == wanted


def others(names, section):
    ours = {name for group, name in OURS if group == section}
    return [each for each in names if each not in ours and each not in UNUSED.get(section, ())]


@pytest.mark.parametrize("name", others(NOVA_DEFAULT, "DEFAULT"))
def test_no_option_of_nova_is_taken_for_a_slip(name):
    assert name in LOOKALIKES["DEFAULT"] or correct_typo(name, IN_DEFAULT) == ""


@pytest.mark.parametrize("name", others(NOVA_DATABASE, "database"))
def test_no_option_of_oslo_db_is_taken_for_a_slip(name):
    ours = {name for group, name in OURS if group == "database"}
    assert name in LOOKALIKES["database"] or correct_typo(name, ours) == ""


def test_every_neighbour_would_be_taken_for_a_slip():
    for section, names in LOOKALIKES.items():
        ours = {name for group, name in OURS if group == section}
        assert [name for name in names if not correct_typo(name, ours)] == []


def options_of_oslo():
    """Names that the installed libraries have in [DEFAULT], old ones too."""
    importlib.import_module("roost.messages.oslo")  # sets the backend of threads before oslo.messaging is loaded
    libraries = [importlib.import_module(name) for name in ("oslo_messaging.opts", "oslo_log._options")]
    for group, options in (each for library in libraries for each in library.list_opts()):
        for option in options if group is None else ():
            yield option.dest
            yield from (old.name for old in option.deprecated_opts if old.group in (None, "DEFAULT"))


def test_no_option_of_the_installed_libraries_is_taken_for_a_slip():
    names = others(options_of_oslo(), "DEFAULT")
    assert len(names) > 10
    assert [name for name in names if correct_typo(name, IN_DEFAULT) and name not in LOOKALIKES["DEFAULT"]] == []


def test_unused_names_are_none_of_ours():
    assert {(section, name) for section, names in UNUSED.items() for name in names} & OURS == set()


LETTERS = st.sampled_from("abcdefghijklmnopqrstuvwxyz_")


@given(st.sampled_from(IN_DEFAULT), LETTERS, st.data())
def test_one_wrong_letter_in_any_of_our_names_is_a_slip_of_something(name, letter, data):
    at = data.draw(st.integers(0, len(name) - 1))
    assert correct_typo(f"{name[:at]}{letter}{name[at + 1 :]}", IN_DEFAULT)


@given(st.text(LETTERS, min_size=1, max_size=40), st.sampled_from(IN_DEFAULT))
def test_a_name_that_shares_few_letters_is_no_slip(noise, name):
    assert correct_typo(f"zz{noise}qq_{name}", IN_DEFAULT) == "" or len(noise) < 3
