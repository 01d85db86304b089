# SPDX-License-Identifier: Apache-2.0
"""The configuration of the cloud's services, as text."""

NOVA_CONF = """
[DEFAULT]
host = controller
my_ip = 127.0.0.1
transport_url = {transport_url}
state_path = {dir}
compute_driver = fake.FakeDriverWithoutFakeNodes
sync_power_state_interval = -1
heal_instance_info_cache_interval = -1
reserved_host_memory_mb = 0
graceful_shutdown_timeout = 3
manager_shutdown_timeout = 1
[placement]
auth_type = admin_token
endpoint = {placement_url}
token = admin
[neutron]
auth_type = admin_token
endpoint = {neighbours}
endpoint_override = {neighbours}
token = admin
[glance]
endpoint_override = {neighbours}
[cinder]
endpoint_template = {neighbours}/volume
[quota]
instances = -1
cores = -1
ram = -1
server_groups = -1
server_group_members = -1
[scheduler]
workers = 1
[filter_scheduler]
enabled_filters = {filters}
[conductor]
workers = 2
[wsgi]
api_paste_config = {dir}/api-paste.ini
[image_cache]
manager_interval = -1
[oslo_concurrency]
lock_path = {dir}/locks
[vnc]
enabled = false
{extra}
"""

FILTERS = (
    "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,"
    "ServerGroupAffinityFilter,SameHostFilter,DifferentHostFilter,AggregateInstanceExtraSpecsFilter,"
    "NUMATopologyFilter,PciPassthroughFilter"
)
"""nova's own five, and those that many sites add."""

# A compute host has no way to the databases, so its file lacks these sections.
NOVA_DATABASES = """
[api_database]
connection = {nova_api}
[database]
connection = {nova_cell1}
"""

PLACEMENT_CONF = """
[api]
auth_strategy = noauth2
[placement_database]
connection = {placement}
[placement]
allocation_conflict_retry_count = {placement_retries}
"""

STACK_AUTH = "\n[filter:stackauth]\npaste.filter_factory = stack_auth:factory\n"
