CREATE TYPE instances0locked_by AS ENUM ('owner', 'admin');
CREATE TABLE compute_nodes (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    deleted_at timestamp without time zone,
    id integer NOT NULL,
    service_id integer,
    vcpus integer NOT NULL,
    memory_mb integer NOT NULL,
    local_gb integer NOT NULL,
    vcpus_used integer NOT NULL,
    memory_mb_used integer NOT NULL,
    local_gb_used integer NOT NULL,
    hypervisor_type text NOT NULL,
    hypervisor_version integer NOT NULL,
    cpu_info text NOT NULL,
    disk_available_least integer,
    free_ram_mb integer,
    free_disk_gb integer,
    current_workload integer,
    running_vms integer,
    hypervisor_hostname character varying(255),
    deleted integer,
    host_ip inet,
    supported_instances text,
    pci_stats text,
    metrics text,
    extra_resources text,
    stats text,
    numa_topology text,
    host character varying(255),
    ram_allocation_ratio double precision,
    cpu_allocation_ratio double precision,
    uuid character varying(36),
    disk_allocation_ratio double precision,
    mapped integer
);
CREATE SEQUENCE compute_nodes_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE compute_nodes_id_seq OWNED BY compute_nodes.id;
CREATE TABLE instance_extra (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    deleted_at timestamp without time zone,
    deleted integer,
    id integer NOT NULL,
    instance_uuid character varying(36) NOT NULL,
    numa_topology text,
    pci_requests text,
    flavor text,
    vcpu_model text,
    migration_context text,
    keypairs text,
    device_metadata text,
    trusted_certs text,
    vpmems text,
    resources text
);
CREATE SEQUENCE instance_extra_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE instance_extra_id_seq OWNED BY instance_extra.id;
CREATE TABLE instance_system_metadata (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    deleted_at timestamp without time zone,
    id integer NOT NULL,
    instance_uuid character varying(36) NOT NULL,
    key character varying(255) NOT NULL,
    value character varying(255),
    deleted integer
);
CREATE SEQUENCE instance_system_metadata_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE instance_system_metadata_id_seq OWNED BY instance_system_metadata.id;
CREATE TABLE instances (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    deleted_at timestamp without time zone,
    id integer NOT NULL,
    internal_id integer,
    user_id character varying(255),
    project_id character varying(255),
    image_ref character varying(255),
    kernel_id character varying(255),
    ramdisk_id character varying(255),
    launch_index integer,
    key_name character varying(255),
    key_data text,
    power_state integer,
    vm_state character varying(255),
    memory_mb integer,
    vcpus integer,
    hostname character varying(255),
    host character varying(255),
    user_data text,
    reservation_id character varying(255),
    launched_at timestamp without time zone,
    terminated_at timestamp without time zone,
    display_name character varying(255),
    display_description character varying(255),
    availability_zone character varying(255),
    locked boolean,
    os_type character varying(255),
    launched_on text,
    instance_type_id integer,
    vm_mode character varying(255),
    uuid character varying(36) NOT NULL,
    architecture character varying(255),
    root_device_name character varying(255),
    access_ip_v4 inet,
    access_ip_v6 inet,
    config_drive character varying(255),
    task_state character varying(255),
    default_ephemeral_device character varying(255),
    default_swap_device character varying(255),
    progress integer,
    auto_disk_config boolean,
    shutdown_terminate boolean,
    disable_terminate boolean,
    root_gb integer,
    ephemeral_gb integer,
    cell_name character varying(255),
    node character varying(255),
    deleted integer,
    locked_by instances0locked_by,
    cleaned integer,
    ephemeral_key_uuid character varying(36),
    hidden boolean,
    compute_id bigint
);
CREATE SEQUENCE instances_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE instances_id_seq OWNED BY instances.id;
CREATE TABLE services (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    deleted_at timestamp without time zone,
    id integer NOT NULL,
    host character varying(255),
    "binary" character varying(255),
    topic character varying(255),
    report_count integer NOT NULL,
    disabled boolean,
    deleted integer,
    disabled_reason character varying(255),
    last_seen_up timestamp without time zone,
    forced_down boolean,
    version integer,
    uuid character varying(36)
);
CREATE SEQUENCE services_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE services_id_seq OWNED BY services.id;
ALTER TABLE ONLY compute_nodes ALTER COLUMN id SET DEFAULT nextval('compute_nodes_id_seq'::regclass);
ALTER TABLE ONLY instance_extra ALTER COLUMN id SET DEFAULT nextval('instance_extra_id_seq'::regclass);
ALTER TABLE ONLY instance_system_metadata ALTER COLUMN id SET DEFAULT nextval('instance_system_metadata_id_seq'::regclass);
ALTER TABLE ONLY instances ALTER COLUMN id SET DEFAULT nextval('instances_id_seq'::regclass);
ALTER TABLE ONLY services ALTER COLUMN id SET DEFAULT nextval('services_id_seq'::regclass);
INSERT INTO compute_nodes (created_at, updated_at, deleted_at, id, service_id, vcpus, memory_mb, local_gb, vcpus_used, memory_mb_used, local_gb_used, hypervisor_type, hypervisor_version, cpu_info, disk_available_least, free_ram_mb, free_disk_gb, current_workload, running_vms, hypervisor_hostname, deleted, host_ip, supported_instances, pci_stats, metrics, extra_resources, stats, numa_topology, host, ram_allocation_ratio, cpu_allocation_ratio, uuid, disk_allocation_ratio, mapped) VALUES ('2026-11-17 00:04:43.815513', '2026-11-17 00:05:02.529649', NULL, 3, 6, 8, 16384, 200, 0, 0, 0, 'fake', 1000, '{"arch": "x86_64", "model": "Nehalem", "vendor": "Intel", "features": ["pge", "clflush"], "topology": {"cores": 1, "threads": 1, "sockets": 4}}', 0, 16384, 200, 0, 0, 'host1', 0, '127.0.0.1', '[["x86_64", "fake", "hvm"]]', '{"nova_object.name": "PciDevicePoolList", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"objects": []}, "nova_object.changes": ["objects"]}', '[]', NULL, '{"failed_builds": "0"}', NULL, 'host1', 1, 4, '2b0f1516-59bf-4555-89f2-0e1fe66b60f8', 1, 1);
INSERT INTO compute_nodes (created_at, updated_at, deleted_at, id, service_id, vcpus, memory_mb, local_gb, vcpus_used, memory_mb_used, local_gb_used, hypervisor_type, hypervisor_version, cpu_info, disk_available_least, free_ram_mb, free_disk_gb, current_workload, running_vms, hypervisor_hostname, deleted, host_ip, supported_instances, pci_stats, metrics, extra_resources, stats, numa_topology, host, ram_allocation_ratio, cpu_allocation_ratio, uuid, disk_allocation_ratio, mapped) VALUES ('2026-11-17 00:04:44.170291', '2026-11-17 00:06:47.174493', NULL, 4, 7, 16, 32768, 500, 9, 4608, 8, 'fake', 1000, '{"arch": "x86_64", "model": "Nehalem", "vendor": "Intel", "features": ["pge", "clflush"], "topology": {"cores": 1, "threads": 1, "sockets": 4}}', 0, 28160, 492, 0, 5, 'host2', 0, '127.0.0.1', '[["x86_64", "fake", "hvm"]]', '{"nova_object.name": "PciDevicePoolList", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"objects": []}, "nova_object.changes": ["objects"]}', '[]', NULL, '{"failed_builds": "0", "num_instances": "5", "num_vm_building": "5", "num_task_None": "5", "num_os_type_None": "5", "num_proj_admin": "5", "io_workload": "5"}', '{"nova_object.name": "NUMATopology", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"cells": [{"nova_object.name": "NUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.5", "nova_object.data": {"id": 0, "cpuset": [0, 1, 2, 3, 4, 5, 6, 7], "pcpuset": [0, 1, 2, 3, 4, 5, 6, 7], "memory": 16384, "cpu_usage": 2, "memory_usage": 2048, "pinned_cpus": [0, 1], "siblings": [[0, 1], [2, 3], [4, 5], [6, 7]], "mempages": [{"nova_object.name": "NUMAPagesTopology", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"size_kb": 4, "total": 4194304, "used": 524288, "reserved": 0}, "nova_object.changes": ["total", "used", "size_kb", "reserved"]}], "network_metadata": {"nova_object.name": "NetworkMetadata", "nova_object.namespace": "nova", "nova_object.version": "1.0", "nova_object.data": {"physnets": [], "tunneled": false}, "nova_object.changes": ["tunneled", "physnets"]}, "socket": 0}, "nova_object.changes": ["cpuset", "memory_usage", "cpu_usage", "siblings", "mempages", "memory", "id", "pcpuset", "pinned_cpus", "socket", "network_metadata"]}, {"nova_object.name": "NUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.5", "nova_object.data": {"id": 1, "cpuset": [8, 9, 10, 11, 12, 13, 14, 15], "pcpuset": [8, 9, 10, 11, 12, 13, 14, 15], "memory": 16384, "cpu_usage": 2, "memory_usage": 1024, "pinned_cpus": [], "siblings": [[8, 9], [10, 11], [12, 13], [14, 15]], "mempages": [{"nova_object.name": "NUMAPagesTopology", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"size_kb": 4, "total": 4194304, "used": 262144, "reserved": 0}, "nova_object.changes": ["total", "used", "size_kb", "reserved"]}], "network_metadata": {"nova_object.name": "NetworkMetadata", "nova_object.namespace": "nova", "nova_object.version": "1.0", "nova_object.data": {"physnets": [], "tunneled": false}, "nova_object.changes": ["tunneled", "physnets"]}, "socket": 1}, "nova_object.changes": ["cpuset", "memory_usage", "cpu_usage", "siblings", "mempages", "memory", "id", "pcpuset", "pinned_cpus", "socket", "network_metadata"]}]}, "nova_object.changes": ["cells"]}', 'host2', 1, 4, '7ea8fb80-98d8-4c2c-ba7c-a2c02f0b394e', 1, 1);
INSERT INTO compute_nodes (created_at, updated_at, deleted_at, id, service_id, vcpus, memory_mb, local_gb, vcpus_used, memory_mb_used, local_gb_used, hypervisor_type, hypervisor_version, cpu_info, disk_available_least, free_ram_mb, free_disk_gb, current_workload, running_vms, hypervisor_hostname, deleted, host_ip, supported_instances, pci_stats, metrics, extra_resources, stats, numa_topology, host, ram_allocation_ratio, cpu_allocation_ratio, uuid, disk_allocation_ratio, mapped) VALUES ('2026-11-17 00:04:42.099082', '2026-11-17 00:06:48.836334', NULL, 1, 4, 16, 32768, 500, 0, 0, 0, 'fake', 1000, '{"arch": "x86_64", "model": "Nehalem", "vendor": "Intel", "features": ["pge", "clflush"], "topology": {"cores": 1, "threads": 1, "sockets": 4}}', 0, 32768, 500, 0, 0, 'host0', 0, '127.0.0.1', '[["x86_64", "fake", "hvm"]]', '{"nova_object.name": "PciDevicePoolList", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"objects": []}, "nova_object.changes": ["objects"]}', '[]', NULL, '{"failed_builds": "0", "num_instances": "0", "num_vm_building": "0", "num_task_None": "0", "num_os_type_None": "0", "num_proj_admin": "0", "io_workload": "0"}', '{"nova_object.name": "NUMATopology", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"cells": [{"nova_object.name": "NUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.5", "nova_object.data": {"id": 0, "cpuset": [0, 1, 2, 3, 4, 5, 6, 7], "pcpuset": [0, 1, 2, 3, 4, 5, 6, 7], "memory": 16384, "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [[0, 1], [2, 3], [4, 5], [6, 7]], "mempages": [{"nova_object.name": "NUMAPagesTopology", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"size_kb": 4, "total": 4194304, "used": 0, "reserved": 0}, "nova_object.changes": ["total", "used", "size_kb", "reserved"]}], "network_metadata": {"nova_object.name": "NetworkMetadata", "nova_object.namespace": "nova", "nova_object.version": "1.0", "nova_object.data": {"physnets": [], "tunneled": false}, "nova_object.changes": ["tunneled", "physnets"]}, "socket": 0}, "nova_object.changes": ["cpuset", "memory_usage", "siblings", "cpu_usage", "mempages", "memory", "id", "pcpuset", "pinned_cpus", "socket", "network_metadata"]}, {"nova_object.name": "NUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.5", "nova_object.data": {"id": 1, "cpuset": [8, 9, 10, 11, 12, 13, 14, 15], "pcpuset": [8, 9, 10, 11, 12, 13, 14, 15], "memory": 16384, "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [[8, 9], [10, 11], [12, 13], [14, 15]], "mempages": [{"nova_object.name": "NUMAPagesTopology", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"size_kb": 4, "total": 4194304, "used": 0, "reserved": 0}, "nova_object.changes": ["total", "used", "size_kb", "reserved"]}], "network_metadata": {"nova_object.name": "NetworkMetadata", "nova_object.namespace": "nova", "nova_object.version": "1.0", "nova_object.data": {"physnets": [], "tunneled": false}, "nova_object.changes": ["tunneled", "physnets"]}, "socket": 1}, "nova_object.changes": ["cpuset", "memory_usage", "siblings", "cpu_usage", "mempages", "memory", "id", "pcpuset", "pinned_cpus", "socket", "network_metadata"]}]}, "nova_object.changes": ["cells"]}', 'host0', 1, 4, '5082f877-7e17-45e8-8d30-27edae16bb5e', 1, 1);
INSERT INTO compute_nodes (created_at, updated_at, deleted_at, id, service_id, vcpus, memory_mb, local_gb, vcpus_used, memory_mb_used, local_gb_used, hypervisor_type, hypervisor_version, cpu_info, disk_available_least, free_ram_mb, free_disk_gb, current_workload, running_vms, hypervisor_hostname, deleted, host_ip, supported_instances, pci_stats, metrics, extra_resources, stats, numa_topology, host, ram_allocation_ratio, cpu_allocation_ratio, uuid, disk_allocation_ratio, mapped) VALUES ('2026-11-17 00:04:43.635812', '2026-11-17 00:05:02.492024', NULL, 2, 5, 8, 16384, 200, 0, 0, 0, 'fake', 1000, '{"arch": "x86_64", "model": "Nehalem", "vendor": "Intel", "features": ["pge", "clflush"], "topology": {"cores": 1, "threads": 1, "sockets": 4}}', 0, 16384, 200, 0, 0, 'host3', 0, '127.0.0.1', '[["x86_64", "fake", "hvm"]]', '{"nova_object.name": "PciDevicePoolList", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"objects": []}, "nova_object.changes": ["objects"]}', '[]', NULL, '{"failed_builds": "0"}', NULL, 'host3', 1, 4, 'c9da9c07-5a99-4eb5-88fe-a1a4d0a82667', 1, 1);
INSERT INTO instance_extra (created_at, updated_at, deleted_at, deleted, id, instance_uuid, numa_topology, pci_requests, flavor, vcpu_model, migration_context, keypairs, device_metadata, trusted_certs, vpmems, resources) VALUES ('2026-11-17 00:06:45.700906', '2026-11-17 00:06:46.929111', '2026-11-17 00:06:48.978194', 6, 6, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', NULL, '[]', '{"cur": {"nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"id": 1, "name": "v1-512-1", "memory_mb": 512, "vcpus": 1, "root_gb": 1, "ephemeral_gb": 0, "flavorid": "v1-512-1", "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": false, "is_public": true, "extra_specs": {}, "description": null, "created_at": "2026-11-17T00:06:40Z", "updated_at": null, "deleted_at": null, "deleted": false}}, "old": null, "new": null}', NULL, NULL, '{"nova_object.name": "KeyPairList", "nova_object.namespace": "nova", "nova_object.version": "1.3", "nova_object.data": {"objects": []}}', NULL, NULL, NULL, NULL);
INSERT INTO instance_extra (created_at, updated_at, deleted_at, deleted, id, instance_uuid, numa_topology, pci_requests, flavor, vcpu_model, migration_context, keypairs, device_metadata, trusted_certs, vpmems, resources) VALUES ('2026-11-17 00:06:43.378656', '2026-11-17 00:06:46.824123', NULL, 0, 2, '2564ae5b-a126-4d19-9210-0b145e844dde', NULL, '[]', '{"cur": {"nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"id": 1, "name": "v1-512-1", "memory_mb": 512, "vcpus": 1, "root_gb": 1, "ephemeral_gb": 0, "flavorid": "v1-512-1", "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": false, "is_public": true, "extra_specs": {}, "description": null, "created_at": "2026-11-17T00:06:40Z", "updated_at": null, "deleted_at": null, "deleted": false}}, "old": null, "new": null}', NULL, NULL, '{"nova_object.name": "KeyPairList", "nova_object.namespace": "nova", "nova_object.version": "1.3", "nova_object.data": {"objects": []}}', NULL, NULL, NULL, NULL);
INSERT INTO instance_extra (created_at, updated_at, deleted_at, deleted, id, instance_uuid, numa_topology, pci_requests, flavor, vcpu_model, migration_context, keypairs, device_metadata, trusted_certs, vpmems, resources) VALUES ('2026-11-17 00:06:42.81186', '2026-11-17 00:06:45.656063', NULL, 0, 1, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', NULL, '[]', '{"cur": {"nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"id": 1, "name": "v1-512-1", "memory_mb": 512, "vcpus": 1, "root_gb": 1, "ephemeral_gb": 0, "flavorid": "v1-512-1", "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": false, "is_public": true, "extra_specs": {}, "description": null, "created_at": "2026-11-17T00:06:40Z", "updated_at": null, "deleted_at": null, "deleted": false}}, "old": null, "new": null}', NULL, NULL, '{"nova_object.name": "KeyPairList", "nova_object.namespace": "nova", "nova_object.version": "1.3", "nova_object.data": {"objects": []}}', NULL, NULL, NULL, NULL);
INSERT INTO instance_extra (created_at, updated_at, deleted_at, deleted, id, instance_uuid, numa_topology, pci_requests, flavor, vcpu_model, migration_context, keypairs, device_metadata, trusted_certs, vpmems, resources) VALUES ('2026-11-17 00:06:43.794564', '2026-11-17 00:06:46.271195', NULL, 0, 3, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', NULL, '[]', '{"cur": {"nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"id": 1, "name": "v1-512-1", "memory_mb": 512, "vcpus": 1, "root_gb": 1, "ephemeral_gb": 0, "flavorid": "v1-512-1", "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": false, "is_public": true, "extra_specs": {}, "description": null, "created_at": "2026-11-17T00:06:40Z", "updated_at": null, "deleted_at": null, "deleted": false}}, "old": null, "new": null}', NULL, NULL, '{"nova_object.name": "KeyPairList", "nova_object.namespace": "nova", "nova_object.version": "1.3", "nova_object.data": {"objects": []}}', NULL, NULL, NULL, NULL);
INSERT INTO instance_extra (created_at, updated_at, deleted_at, deleted, id, instance_uuid, numa_topology, pci_requests, flavor, vcpu_model, migration_context, keypairs, device_metadata, trusted_certs, vpmems, resources) VALUES ('2026-11-17 00:06:44.589098', '2026-11-17 00:06:47.050629', NULL, 0, 4, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', '{"nova_object.name": "InstanceNUMATopology", "nova_object.namespace": "nova", "nova_object.version": "1.3", "nova_object.data": {"cells": [{"nova_object.name": "InstanceNUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.6", "nova_object.data": {"id": 0, "cpuset": [], "pcpuset": [0, 1], "cpuset_reserved": null, "memory": 1024, "pagesize": null, "cpu_pinning_raw": {"0": 0, "1": 1}, "cpu_policy": "dedicated", "cpu_thread_policy": null}, "nova_object.changes": ["cpu_pinning_raw", "id", "cpuset_reserved"]}], "emulator_threads_policy": null}, "nova_object.changes": ["emulator_threads_policy", "cells"]}', '[]', '{"cur": {"nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"id": 2, "name": "v2-1024-2", "memory_mb": 1024, "vcpus": 2, "root_gb": 2, "ephemeral_gb": 0, "flavorid": "v2-1024-2", "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": false, "is_public": true, "extra_specs": {"hw:cpu_policy": "dedicated"}, "description": null, "created_at": "2026-11-17T00:06:40Z", "updated_at": null, "deleted_at": null, "deleted": false}, "nova_object.changes": ["extra_specs"]}, "old": null, "new": null}', NULL, NULL, '{"nova_object.name": "KeyPairList", "nova_object.namespace": "nova", "nova_object.version": "1.3", "nova_object.data": {"objects": []}}', NULL, NULL, NULL, NULL);
INSERT INTO instance_extra (created_at, updated_at, deleted_at, deleted, id, instance_uuid, numa_topology, pci_requests, flavor, vcpu_model, migration_context, keypairs, device_metadata, trusted_certs, vpmems, resources) VALUES ('2026-11-17 00:06:44.734684', '2026-11-17 00:06:47.494037', NULL, 0, 5, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', '{"nova_object.name": "InstanceNUMATopology", "nova_object.namespace": "nova", "nova_object.version": "1.3", "nova_object.data": {"cells": [{"nova_object.name": "InstanceNUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.6", "nova_object.data": {"id": 0, "cpuset": [0, 1], "pcpuset": [], "cpuset_reserved": null, "memory": 1024, "pagesize": null, "cpu_pinning_raw": null, "cpu_policy": null, "cpu_thread_policy": null}, "nova_object.changes": ["id"]}, {"nova_object.name": "InstanceNUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.6", "nova_object.data": {"id": 1, "cpuset": [2, 3], "pcpuset": [], "cpuset_reserved": null, "memory": 1024, "pagesize": null, "cpu_pinning_raw": null, "cpu_policy": null, "cpu_thread_policy": null}, "nova_object.changes": ["id"]}], "emulator_threads_policy": null}, "nova_object.changes": ["emulator_threads_policy", "cells"]}', '[]', '{"cur": {"nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"id": 3, "name": "v4-2048-3", "memory_mb": 2048, "vcpus": 4, "root_gb": 3, "ephemeral_gb": 0, "flavorid": "v4-2048-3", "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": false, "is_public": true, "extra_specs": {"hw:numa_nodes": "2"}, "description": null, "created_at": "2026-11-17T00:06:41Z", "updated_at": null, "deleted_at": null, "deleted": false}, "nova_object.changes": ["extra_specs"]}, "old": null, "new": null}', NULL, NULL, '{"nova_object.name": "KeyPairList", "nova_object.namespace": "nova", "nova_object.version": "1.3", "nova_object.data": {"objects": []}}', NULL, NULL, NULL, NULL);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:42.839371', NULL, NULL, 1, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', 'image_min_ram', '0', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:42.839383', NULL, NULL, 2, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', 'image_min_disk', '1', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:42.839387', NULL, NULL, 3, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', 'image_disk_format', 'raw', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:42.83939', NULL, NULL, 4, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', 'image_container_format', 'bare', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:42.839392', NULL, NULL, 5, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', 'image_base_image_ref', '00000000-0000-4000-8000-000000000001', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:42.839395', NULL, NULL, 6, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', 'owner_user_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:42.839397', NULL, NULL, 7, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', 'owner_project_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.398976', NULL, NULL, 8, '2564ae5b-a126-4d19-9210-0b145e844dde', 'image_min_ram', '0', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.398987', NULL, NULL, 9, '2564ae5b-a126-4d19-9210-0b145e844dde', 'image_min_disk', '1', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.39899', NULL, NULL, 10, '2564ae5b-a126-4d19-9210-0b145e844dde', 'image_disk_format', 'raw', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.398992', NULL, NULL, 11, '2564ae5b-a126-4d19-9210-0b145e844dde', 'image_container_format', 'bare', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.398993', NULL, NULL, 12, '2564ae5b-a126-4d19-9210-0b145e844dde', 'image_base_image_ref', '00000000-0000-4000-8000-000000000001', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.398995', NULL, NULL, 13, '2564ae5b-a126-4d19-9210-0b145e844dde', 'owner_user_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.398996', NULL, NULL, 14, '2564ae5b-a126-4d19-9210-0b145e844dde', 'owner_project_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.810586', NULL, NULL, 15, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', 'image_min_ram', '0', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.810596', NULL, NULL, 16, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', 'image_min_disk', '1', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.810598', NULL, NULL, 17, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', 'image_disk_format', 'raw', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.8106', NULL, NULL, 18, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', 'image_container_format', 'bare', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.810601', NULL, NULL, 19, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', 'image_base_image_ref', '00000000-0000-4000-8000-000000000001', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.810603', NULL, NULL, 20, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', 'owner_user_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:43.810605', NULL, NULL, 21, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', 'owner_project_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.516062', NULL, NULL, 22, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', 'boot_roles', 'admin,member,reader', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.590086', NULL, NULL, 23, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', 'image_min_ram', '0', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.590092', NULL, NULL, 24, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', 'image_min_disk', '2', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.590095', NULL, NULL, 25, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', 'image_disk_format', 'raw', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.590097', NULL, NULL, 26, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', 'image_container_format', 'bare', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.590098', NULL, NULL, 27, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', 'image_base_image_ref', '00000000-0000-4000-8000-000000000001', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.5901', NULL, NULL, 28, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', 'owner_user_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.590101', NULL, NULL, 29, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', 'owner_project_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.736129', NULL, NULL, 30, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', 'image_min_ram', '0', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.736135', NULL, NULL, 31, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', 'image_min_disk', '3', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.736138', NULL, NULL, 32, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', 'image_disk_format', 'raw', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.73614', NULL, NULL, 33, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', 'image_container_format', 'bare', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.736141', NULL, NULL, 34, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', 'image_base_image_ref', '00000000-0000-4000-8000-000000000001', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.736143', NULL, NULL, 35, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', 'owner_user_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:44.736144', NULL, NULL, 36, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', 'owner_project_name', NULL, 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:45.234899', NULL, NULL, 37, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', 'boot_roles', 'admin,member,reader', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:45.806477', NULL, NULL, 45, '2564ae5b-a126-4d19-9210-0b145e844dde', 'boot_roles', 'admin,member,reader', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:46.169593', NULL, NULL, 46, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', 'boot_roles', 'admin,member,reader', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:46.827464', NULL, NULL, 48, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', 'boot_roles', 'admin,member,reader', 0);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:45.701914', NULL, '2026-11-17 00:06:48.979275', 38, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', 'image_min_ram', '0', 38);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:45.701919', NULL, '2026-11-17 00:06:48.979275', 39, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', 'image_min_disk', '1', 39);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:45.701921', NULL, '2026-11-17 00:06:48.979275', 40, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', 'image_disk_format', 'raw', 40);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:45.701923', NULL, '2026-11-17 00:06:48.979275', 41, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', 'image_container_format', 'bare', 41);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:45.701924', NULL, '2026-11-17 00:06:48.979275', 42, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', 'image_base_image_ref', '00000000-0000-4000-8000-000000000001', 42);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:45.701926', NULL, '2026-11-17 00:06:48.979275', 43, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', 'owner_user_name', NULL, 43);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:45.701928', NULL, '2026-11-17 00:06:48.979275', 44, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', 'owner_project_name', NULL, 44);
INSERT INTO instance_system_metadata (created_at, updated_at, deleted_at, id, instance_uuid, key, value, deleted) VALUES ('2026-11-17 00:06:46.240114', NULL, '2026-11-17 00:06:48.979275', 47, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', 'boot_roles', 'admin,member,reader', 47);
INSERT INTO instances (created_at, updated_at, deleted_at, id, internal_id, user_id, project_id, image_ref, kernel_id, ramdisk_id, launch_index, key_name, key_data, power_state, vm_state, memory_mb, vcpus, hostname, host, user_data, reservation_id, launched_at, terminated_at, display_name, display_description, availability_zone, locked, os_type, launched_on, instance_type_id, vm_mode, uuid, architecture, root_device_name, access_ip_v4, access_ip_v6, config_drive, task_state, default_ephemeral_device, default_swap_device, progress, auto_disk_config, shutdown_terminate, disable_terminate, root_gb, ephemeral_gb, cell_name, node, deleted, locked_by, cleaned, ephemeral_key_uuid, hidden, compute_id) VALUES ('2026-11-17 00:06:41', '2026-11-17 00:06:45.674413', NULL, 1, NULL, 'admin', 'admin', '00000000-0000-4000-8000-000000000001', '', '', 0, NULL, NULL, 1, 'active', 512, 1, 'plain', 'host2', NULL, 'r-cw0wcrkq', '2026-11-17 00:06:45', NULL, 'plain', NULL, 'nova', false, NULL, 'host2', 1, NULL, 'bf012b1c-99c2-4d6a-b75f-e6e6c5fd5ade', NULL, '/dev/sda', NULL, NULL, '', NULL, NULL, NULL, 0, false, false, false, 1, 0, NULL, 'host2', 0, NULL, 0, NULL, false, 4);
INSERT INTO instances (created_at, updated_at, deleted_at, id, internal_id, user_id, project_id, image_ref, kernel_id, ramdisk_id, launch_index, key_name, key_data, power_state, vm_state, memory_mb, vcpus, hostname, host, user_data, reservation_id, launched_at, terminated_at, display_name, display_description, availability_zone, locked, os_type, launched_on, instance_type_id, vm_mode, uuid, architecture, root_device_name, access_ip_v4, access_ip_v6, config_drive, task_state, default_ephemeral_device, default_swap_device, progress, auto_disk_config, shutdown_terminate, disable_terminate, root_gb, ephemeral_gb, cell_name, node, deleted, locked_by, cleaned, ephemeral_key_uuid, hidden, compute_id) VALUES ('2026-11-17 00:06:42', '2026-11-17 00:06:46.335024', NULL, 3, NULL, 'admin', 'admin', '00000000-0000-4000-8000-000000000001', '', '', 0, NULL, NULL, 1, 'active', 512, 1, 'near', 'host2', NULL, 'r-x0ctqnxo', '2026-11-17 00:06:46', NULL, 'near', NULL, 'nova', false, NULL, 'host2', 1, NULL, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', NULL, '/dev/sda', NULL, NULL, '', NULL, NULL, NULL, 0, false, false, false, 1, 0, NULL, 'host2', 0, NULL, 0, NULL, false, 4);
INSERT INTO instances (created_at, updated_at, deleted_at, id, internal_id, user_id, project_id, image_ref, kernel_id, ramdisk_id, launch_index, key_name, key_data, power_state, vm_state, memory_mb, vcpus, hostname, host, user_data, reservation_id, launched_at, terminated_at, display_name, display_description, availability_zone, locked, os_type, launched_on, instance_type_id, vm_mode, uuid, architecture, root_device_name, access_ip_v4, access_ip_v6, config_drive, task_state, default_ephemeral_device, default_swap_device, progress, auto_disk_config, shutdown_terminate, disable_terminate, root_gb, ephemeral_gb, cell_name, node, deleted, locked_by, cleaned, ephemeral_key_uuid, hidden, compute_id) VALUES ('2026-11-17 00:06:42', '2026-11-17 00:06:46.874585', NULL, 2, NULL, 'admin', 'admin', '00000000-0000-4000-8000-000000000001', '', '', 0, NULL, NULL, 1, 'active', 512, 1, 'grouped', 'host2', NULL, 'r-4ya0qj6w', '2026-11-17 00:06:46', NULL, 'grouped', NULL, 'nova', false, NULL, 'host2', 1, NULL, '2564ae5b-a126-4d19-9210-0b145e844dde', NULL, '/dev/sda', NULL, NULL, '', NULL, NULL, NULL, 0, false, false, false, 1, 0, NULL, 'host2', 0, NULL, 0, NULL, false, 4);
INSERT INTO instances (created_at, updated_at, deleted_at, id, internal_id, user_id, project_id, image_ref, kernel_id, ramdisk_id, launch_index, key_name, key_data, power_state, vm_state, memory_mb, vcpus, hostname, host, user_data, reservation_id, launched_at, terminated_at, display_name, display_description, availability_zone, locked, os_type, launched_on, instance_type_id, vm_mode, uuid, architecture, root_device_name, access_ip_v4, access_ip_v6, config_drive, task_state, default_ephemeral_device, default_swap_device, progress, auto_disk_config, shutdown_terminate, disable_terminate, root_gb, ephemeral_gb, cell_name, node, deleted, locked_by, cleaned, ephemeral_key_uuid, hidden, compute_id) VALUES ('2026-11-17 00:06:43', '2026-11-17 00:06:47.090513', NULL, 4, NULL, 'admin', 'admin', '00000000-0000-4000-8000-000000000001', '', '', 0, NULL, NULL, 1, 'active', 1024, 2, 'pinned', 'host2', NULL, 'r-nksknzcq', '2026-11-17 00:06:47', NULL, 'pinned', NULL, 'nova', false, NULL, 'host2', 2, NULL, 'd50a9aed-9bcd-480b-a37e-ed0246f15a1c', NULL, '/dev/sda', NULL, NULL, '', NULL, NULL, NULL, 0, false, false, false, 2, 0, NULL, 'host2', 0, NULL, 0, NULL, false, 4);
INSERT INTO instances (created_at, updated_at, deleted_at, id, internal_id, user_id, project_id, image_ref, kernel_id, ramdisk_id, launch_index, key_name, key_data, power_state, vm_state, memory_mb, vcpus, hostname, host, user_data, reservation_id, launched_at, terminated_at, display_name, display_description, availability_zone, locked, os_type, launched_on, instance_type_id, vm_mode, uuid, architecture, root_device_name, access_ip_v4, access_ip_v6, config_drive, task_state, default_ephemeral_device, default_swap_device, progress, auto_disk_config, shutdown_terminate, disable_terminate, root_gb, ephemeral_gb, cell_name, node, deleted, locked_by, cleaned, ephemeral_key_uuid, hidden, compute_id) VALUES ('2026-11-17 00:06:43', '2026-11-17 00:06:47.519663', NULL, 5, NULL, 'admin', 'admin', '00000000-0000-4000-8000-000000000001', '', '', 0, NULL, NULL, 1, 'active', 2048, 4, 'two', 'host2', NULL, 'r-iu9a2xx1', '2026-11-17 00:06:47', NULL, 'two', NULL, 'nova', false, NULL, 'host2', 3, NULL, '1e57ec1b-7ecc-4c75-8bb8-c7e922c60254', NULL, '/dev/sda', NULL, NULL, '', NULL, NULL, NULL, 0, false, false, false, 3, 0, NULL, 'host2', 0, NULL, 0, NULL, false, 4);
INSERT INTO instances (created_at, updated_at, deleted_at, id, internal_id, user_id, project_id, image_ref, kernel_id, ramdisk_id, launch_index, key_name, key_data, power_state, vm_state, memory_mb, vcpus, hostname, host, user_data, reservation_id, launched_at, terminated_at, display_name, display_description, availability_zone, locked, os_type, launched_on, instance_type_id, vm_mode, uuid, architecture, root_device_name, access_ip_v4, access_ip_v6, config_drive, task_state, default_ephemeral_device, default_swap_device, progress, auto_disk_config, shutdown_terminate, disable_terminate, root_gb, ephemeral_gb, cell_name, node, deleted, locked_by, cleaned, ephemeral_key_uuid, hidden, compute_id) VALUES ('2026-11-17 00:06:45', '2026-11-17 00:06:48.709789', '2026-11-17 00:06:48.971091', 6, NULL, 'admin', 'admin', '00000000-0000-4000-8000-000000000001', '', '', 0, NULL, NULL, 0, 'deleted', 512, 1, 'gone', 'host0', NULL, 'r-eow1cycu', '2026-11-17 00:06:46', '2026-11-17 00:06:48', 'gone', NULL, 'zone-east', false, NULL, 'host0', 1, NULL, '2ce789a7-2faf-4a44-a6b1-0eefeac50d4a', NULL, '/dev/sda', NULL, NULL, '', NULL, NULL, NULL, 0, false, false, false, 1, 0, NULL, 'host0', 6, NULL, 0, NULL, false, 1);
INSERT INTO services (created_at, updated_at, deleted_at, id, host, "binary", topic, report_count, disabled, deleted, disabled_reason, last_seen_up, forced_down, version, uuid) VALUES ('2026-11-17 00:04:24.236792', NULL, NULL, 1, 'controller', 'nova-osapi_compute', NULL, 0, false, 0, NULL, NULL, false, 74, '382789c3-d71c-4c99-8369-e5a45a41fddb');
INSERT INTO services (created_at, updated_at, deleted_at, id, host, "binary", topic, report_count, disabled, deleted, disabled_reason, last_seen_up, forced_down, version, uuid) VALUES ('2026-11-17 00:04:43.453904', '2026-11-17 00:06:59.60864', NULL, 5, 'host3', 'nova-compute', 'compute', 14, true, 0, 'being repaired', '2026-11-17 00:06:59.608322', false, 74, 'e981129e-c76e-4288-9268-6d2ae8609241');
INSERT INTO services (created_at, updated_at, deleted_at, id, host, "binary", topic, report_count, disabled, deleted, disabled_reason, last_seen_up, forced_down, version, uuid) VALUES ('2026-11-17 00:04:43.66514', '2026-11-17 00:06:49.685212', NULL, 6, 'host1', 'nova-compute', 'compute', 13, false, 0, NULL, '2026-11-17 00:06:49.68495', false, 74, 'dd84a432-401f-443b-8329-d6ae41626b17');
INSERT INTO services (created_at, updated_at, deleted_at, id, host, "binary", topic, report_count, disabled, deleted, disabled_reason, last_seen_up, forced_down, version, uuid) VALUES ('2026-11-17 00:04:25.885702', '2026-11-17 00:06:51.085645', NULL, 2, 'controller', 'nova-conductor', 'conductor', 15, false, 0, NULL, '2026-11-17 00:06:51.085319', false, 74, '183a2026-9bc1-41b4-ad03-daefc914148c');
INSERT INTO services (created_at, updated_at, deleted_at, id, host, "binary", topic, report_count, disabled, deleted, disabled_reason, last_seen_up, forced_down, version, uuid) VALUES ('2026-11-17 00:04:44.068016', '2026-11-17 00:06:53.61107', NULL, 7, 'host2', 'nova-compute', 'compute', 13, false, 0, NULL, '2026-11-17 00:06:49.770117', true, 74, 'c2b0e738-7455-4be3-855f-235aa9de506c');
INSERT INTO services (created_at, updated_at, deleted_at, id, host, "binary", topic, report_count, disabled, deleted, disabled_reason, last_seen_up, forced_down, version, uuid) VALUES ('2026-11-17 00:05:19.192176', '2026-11-17 00:06:54.302513', NULL, 8, 'controller', 'nova-scheduler', 'scheduler', 10, false, 0, NULL, '2026-11-17 00:06:54.302043', false, 74, 'ad8b1f82-0780-49e9-8b98-d487e49bb6f8');
INSERT INTO services (created_at, updated_at, deleted_at, id, host, "binary", topic, report_count, disabled, deleted, disabled_reason, last_seen_up, forced_down, version, uuid) VALUES ('2026-11-17 00:04:41.804683', '2026-11-17 00:06:58.867182', NULL, 4, 'host0', 'nova-compute', 'compute', 14, false, 0, NULL, '2026-11-17 00:06:58.866918', false, 74, '458a0a34-86d4-4919-aa06-915a6fd2601a');
SELECT pg_catalog.setval('compute_nodes_id_seq', 4, true);
SELECT pg_catalog.setval('instance_extra_id_seq', 6, true);
SELECT pg_catalog.setval('instance_system_metadata_id_seq', 48, true);
SELECT pg_catalog.setval('instances_id_seq', 6, true);
SELECT pg_catalog.setval('services_id_seq', 8, true);
ALTER TABLE ONLY compute_nodes
    ADD CONSTRAINT compute_nodes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY instance_extra
    ADD CONSTRAINT instance_extra_pkey PRIMARY KEY (id);
ALTER TABLE ONLY instance_system_metadata
    ADD CONSTRAINT instance_system_metadata_pkey PRIMARY KEY (id);
ALTER TABLE ONLY instances
    ADD CONSTRAINT instances_pkey PRIMARY KEY (id);
ALTER TABLE ONLY services
    ADD CONSTRAINT services_pkey PRIMARY KEY (id);
ALTER TABLE ONLY compute_nodes
    ADD CONSTRAINT uniq_compute_nodes0host0hypervisor_hostname0deleted UNIQUE (host, hypervisor_hostname, deleted);
ALTER TABLE ONLY instances
    ADD CONSTRAINT uniq_instances0uuid UNIQUE (uuid);
ALTER TABLE ONLY services
    ADD CONSTRAINT uniq_services0host0binary0deleted UNIQUE (host, "binary", deleted);
ALTER TABLE ONLY services
    ADD CONSTRAINT uniq_services0host0topic0deleted UNIQUE (host, topic, deleted);
CREATE UNIQUE INDEX compute_nodes_uuid_idx ON compute_nodes USING btree (uuid);
CREATE INDEX instance_extra_idx ON instance_extra USING btree (instance_uuid);
CREATE INDEX instance_uuid ON instance_system_metadata USING btree (instance_uuid);
CREATE INDEX instances_compute_id_deleted_idx ON instances USING btree (compute_id, deleted);
CREATE INDEX instances_deleted_created_at_idx ON instances USING btree (deleted, created_at);
CREATE INDEX instances_host_deleted_cleaned_idx ON instances USING btree (host, deleted, cleaned);
CREATE INDEX instances_host_node_deleted_idx ON instances USING btree (host, node, deleted);
CREATE INDEX instances_project_id_deleted_idx ON instances USING btree (project_id, deleted);
CREATE INDEX instances_project_id_idx ON instances USING btree (project_id);
CREATE INDEX instances_reservation_id_idx ON instances USING btree (reservation_id);
CREATE INDEX instances_task_state_updated_at_idx ON instances USING btree (task_state, updated_at);
CREATE INDEX instances_terminated_at_launched_at_idx ON instances USING btree (terminated_at, launched_at);
CREATE INDEX instances_updated_at_project_id_idx ON instances USING btree (updated_at, project_id);
CREATE INDEX instances_uuid_deleted_idx ON instances USING btree (uuid, deleted);
CREATE UNIQUE INDEX services_uuid_idx ON services USING btree (uuid);
ALTER TABLE ONLY instance_extra
    ADD CONSTRAINT instance_extra_instance_uuid_fkey FOREIGN KEY (instance_uuid) REFERENCES instances(uuid);
ALTER TABLE ONLY instance_system_metadata
    ADD CONSTRAINT instance_system_metadata_instance_uuid_fkey FOREIGN KEY (instance_uuid) REFERENCES instances(uuid);
