CREATE TABLE aggregate_hosts (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    host character varying(255),
    aggregate_id integer NOT NULL
);
CREATE SEQUENCE aggregate_hosts_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE aggregate_hosts_id_seq OWNED BY aggregate_hosts.id;
CREATE TABLE aggregate_metadata (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    aggregate_id integer NOT NULL,
    key character varying(255) NOT NULL,
    value character varying(255) NOT NULL
);
CREATE SEQUENCE aggregate_metadata_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE aggregate_metadata_id_seq OWNED BY aggregate_metadata.id;
CREATE TABLE aggregates (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    uuid character varying(36),
    name character varying(255)
);
CREATE SEQUENCE aggregates_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE aggregates_id_seq OWNED BY aggregates.id;
CREATE TABLE cell_mappings (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    uuid character varying(36) NOT NULL,
    name character varying(255),
    transport_url text,
    database_connection text,
    disabled boolean
);
CREATE SEQUENCE cell_mappings_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE cell_mappings_id_seq OWNED BY cell_mappings.id;
CREATE TABLE host_mappings (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    cell_id integer NOT NULL,
    host character varying(255) NOT NULL
);
CREATE SEQUENCE host_mappings_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE host_mappings_id_seq OWNED BY host_mappings.id;
CREATE TABLE instance_group_member (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    instance_uuid character varying(255),
    group_id integer NOT NULL
);
CREATE SEQUENCE instance_group_member_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE instance_group_member_id_seq OWNED BY instance_group_member.id;
CREATE TABLE instance_group_policy (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    policy character varying(255),
    group_id integer NOT NULL,
    rules text
);
CREATE SEQUENCE instance_group_policy_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE instance_group_policy_id_seq OWNED BY instance_group_policy.id;
CREATE TABLE instance_groups (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    user_id character varying(255),
    project_id character varying(255),
    uuid character varying(36) NOT NULL,
    name character varying(255)
);
CREATE SEQUENCE instance_groups_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE instance_groups_id_seq OWNED BY instance_groups.id;
ALTER TABLE ONLY aggregate_hosts ALTER COLUMN id SET DEFAULT nextval('aggregate_hosts_id_seq'::regclass);
ALTER TABLE ONLY aggregate_metadata ALTER COLUMN id SET DEFAULT nextval('aggregate_metadata_id_seq'::regclass);
ALTER TABLE ONLY aggregates ALTER COLUMN id SET DEFAULT nextval('aggregates_id_seq'::regclass);
ALTER TABLE ONLY cell_mappings ALTER COLUMN id SET DEFAULT nextval('cell_mappings_id_seq'::regclass);
ALTER TABLE ONLY host_mappings ALTER COLUMN id SET DEFAULT nextval('host_mappings_id_seq'::regclass);
ALTER TABLE ONLY instance_group_member ALTER COLUMN id SET DEFAULT nextval('instance_group_member_id_seq'::regclass);
ALTER TABLE ONLY instance_group_policy ALTER COLUMN id SET DEFAULT nextval('instance_group_policy_id_seq'::regclass);
ALTER TABLE ONLY instance_groups ALTER COLUMN id SET DEFAULT nextval('instance_groups_id_seq'::regclass);
INSERT INTO aggregate_hosts (created_at, updated_at, id, host, aggregate_id) VALUES ('2026-11-17 00:06:38.008556', NULL, 1, 'host0', 1);
INSERT INTO aggregate_hosts (created_at, updated_at, id, host, aggregate_id) VALUES ('2026-11-17 00:06:38.464013', NULL, 2, 'host1', 1);
INSERT INTO aggregate_hosts (created_at, updated_at, id, host, aggregate_id) VALUES ('2026-11-17 00:06:38.874264', NULL, 3, 'host1', 2);
INSERT INTO aggregate_hosts (created_at, updated_at, id, host, aggregate_id) VALUES ('2026-11-17 00:06:39.290404', NULL, 4, 'host2', 2);
INSERT INTO aggregate_metadata (created_at, updated_at, id, aggregate_id, key, value) VALUES ('2026-11-17 00:06:37.253904', NULL, 1, 1, 'availability_zone', 'zone-east');
INSERT INTO aggregate_metadata (created_at, updated_at, id, aggregate_id, key, value) VALUES ('2026-11-17 00:06:39.626646', NULL, 2, 2, 'disk', 'ssd');
INSERT INTO aggregate_metadata (created_at, updated_at, id, aggregate_id, key, value) VALUES ('2026-11-17 00:06:39.626656', NULL, 3, 2, 'note', 'café');
INSERT INTO aggregates (created_at, updated_at, id, uuid, name) VALUES ('2026-11-17 00:06:37.215737', NULL, 1, '4aab8b52-b246-4026-a400-41edcc42526b', 'east');
INSERT INTO aggregates (created_at, updated_at, id, uuid, name) VALUES ('2026-11-17 00:06:38.698407', NULL, 2, '054d3ef2-3ea4-459b-877f-d0853a293344', 'ssd');
INSERT INTO aggregates (created_at, updated_at, id, uuid, name) VALUES ('2026-11-17 00:06:39.758225', NULL, 3, 'a057aab6-0a48-4abd-a3db-628d252a8e60', 'empty');
INSERT INTO cell_mappings (created_at, updated_at, id, uuid, name, transport_url, database_connection, disabled) VALUES ('2026-11-17 00:04:05.006062', NULL, 1, '00000000-0000-0000-0000-000000000000', 'cell0', 'none:///', 'postgresql+psycopg2://nova:secret@db.internal:5432/nova_cell0', false);
INSERT INTO cell_mappings (created_at, updated_at, id, uuid, name, transport_url, database_connection, disabled) VALUES ('2026-11-17 00:04:05.775756', NULL, 2, '3a1f32c8-6037-4829-8073-431c6f874424', 'cell1', 'rabbit://nova:secret@broker.internal:5672/', 'postgresql+psycopg2://nova:secret@db.internal:5432/nova_cell1', false);
INSERT INTO host_mappings (created_at, updated_at, id, cell_id, host) VALUES ('2026-11-17 00:05:02.312738', NULL, 1, 2, 'host0');
INSERT INTO host_mappings (created_at, updated_at, id, cell_id, host) VALUES ('2026-11-17 00:05:02.482195', NULL, 2, 2, 'host3');
INSERT INTO host_mappings (created_at, updated_at, id, cell_id, host) VALUES ('2026-11-17 00:05:02.503773', NULL, 3, 2, 'host1');
INSERT INTO host_mappings (created_at, updated_at, id, cell_id, host) VALUES ('2026-11-17 00:05:02.549327', NULL, 4, 2, 'host2');
INSERT INTO instance_group_member (created_at, updated_at, id, instance_uuid, group_id) VALUES ('2026-11-17 00:06:42.341763', NULL, 1, '2564ae5b-a126-4d19-9210-0b145e844dde', 1);
INSERT INTO instance_group_member (created_at, updated_at, id, instance_uuid, group_id) VALUES ('2026-11-17 00:06:42.868936', NULL, 2, 'd41bce27-9ed0-48ed-9288-89a1c685cf20', 2);
INSERT INTO instance_group_policy (created_at, updated_at, id, policy, group_id, rules) VALUES ('2026-11-17 00:06:40.135306', NULL, 1, 'anti-affinity', 1, '{"max_server_per_host": "2"}');
INSERT INTO instance_group_policy (created_at, updated_at, id, policy, group_id, rules) VALUES ('2026-11-17 00:06:40.27327', NULL, 2, 'soft-affinity', 2, '{}');
INSERT INTO instance_groups (created_at, updated_at, id, user_id, project_id, uuid, name) VALUES ('2026-11-17 00:06:40.127417', NULL, 1, 'admin', 'admin', '3fe46bc3-15fe-44ca-96d1-efa9452fe205', 'spread');
INSERT INTO instance_groups (created_at, updated_at, id, user_id, project_id, uuid, name) VALUES ('2026-11-17 00:06:40.269316', NULL, 2, 'admin', 'admin', '2ba2e24b-5165-4b5b-9e76-fb783c135146', 'near');
SELECT pg_catalog.setval('aggregate_hosts_id_seq', 4, true);
SELECT pg_catalog.setval('aggregate_metadata_id_seq', 3, true);
SELECT pg_catalog.setval('aggregates_id_seq', 3, true);
SELECT pg_catalog.setval('cell_mappings_id_seq', 2, true);
SELECT pg_catalog.setval('host_mappings_id_seq', 4, true);
SELECT pg_catalog.setval('instance_group_member_id_seq', 2, true);
SELECT pg_catalog.setval('instance_group_policy_id_seq', 2, true);
SELECT pg_catalog.setval('instance_groups_id_seq', 2, true);
ALTER TABLE ONLY aggregate_hosts
    ADD CONSTRAINT aggregate_hosts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY aggregate_metadata
    ADD CONSTRAINT aggregate_metadata_pkey PRIMARY KEY (id);
ALTER TABLE ONLY aggregates
    ADD CONSTRAINT aggregates_pkey PRIMARY KEY (id);
ALTER TABLE ONLY cell_mappings
    ADD CONSTRAINT cell_mappings_pkey PRIMARY KEY (id);
ALTER TABLE ONLY host_mappings
    ADD CONSTRAINT host_mappings_pkey PRIMARY KEY (id);
ALTER TABLE ONLY instance_group_member
    ADD CONSTRAINT instance_group_member_pkey PRIMARY KEY (id);
ALTER TABLE ONLY instance_group_policy
    ADD CONSTRAINT instance_group_policy_pkey PRIMARY KEY (id);
ALTER TABLE ONLY instance_groups
    ADD CONSTRAINT instance_groups_pkey PRIMARY KEY (id);
ALTER TABLE ONLY aggregates
    ADD CONSTRAINT uniq_aggregate0name UNIQUE (name);
ALTER TABLE ONLY aggregate_hosts
    ADD CONSTRAINT uniq_aggregate_hosts0host0aggregate_id UNIQUE (host, aggregate_id);
ALTER TABLE ONLY aggregate_metadata
    ADD CONSTRAINT uniq_aggregate_metadata0aggregate_id0key UNIQUE (aggregate_id, key);
ALTER TABLE ONLY cell_mappings
    ADD CONSTRAINT uniq_cell_mappings0uuid UNIQUE (uuid);
ALTER TABLE ONLY host_mappings
    ADD CONSTRAINT uniq_host_mappings0host UNIQUE (host);
ALTER TABLE ONLY instance_groups
    ADD CONSTRAINT uniq_instance_groups0uuid UNIQUE (uuid);
CREATE INDEX aggregate_metadata_key_idx ON aggregate_metadata USING btree (key);
CREATE INDEX aggregate_uuid_idx ON aggregates USING btree (uuid);
CREATE INDEX host_idx ON host_mappings USING btree (host);
CREATE INDEX instance_group_member_instance_idx ON instance_group_member USING btree (instance_uuid);
CREATE INDEX instance_group_policy_policy_idx ON instance_group_policy USING btree (policy);
CREATE INDEX uuid_idx ON cell_mappings USING btree (uuid);
ALTER TABLE ONLY aggregate_hosts
    ADD CONSTRAINT aggregate_hosts_aggregate_id_fkey FOREIGN KEY (aggregate_id) REFERENCES aggregates(id);
ALTER TABLE ONLY aggregate_metadata
    ADD CONSTRAINT aggregate_metadata_aggregate_id_fkey FOREIGN KEY (aggregate_id) REFERENCES aggregates(id);
ALTER TABLE ONLY host_mappings
    ADD CONSTRAINT host_mappings_cell_id_fkey FOREIGN KEY (cell_id) REFERENCES cell_mappings(id);
ALTER TABLE ONLY instance_group_member
    ADD CONSTRAINT instance_group_member_group_id_fkey FOREIGN KEY (group_id) REFERENCES instance_groups(id);
ALTER TABLE ONLY instance_group_policy
    ADD CONSTRAINT instance_group_policy_group_id_fkey FOREIGN KEY (group_id) REFERENCES instance_groups(id);
CREATE TABLE request_specs (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    instance_uuid character varying(36) NOT NULL,
    spec text NOT NULL
);
CREATE SEQUENCE request_specs_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE request_specs_id_seq OWNED BY request_specs.id;
ALTER TABLE ONLY request_specs ALTER COLUMN id SET DEFAULT nextval('request_specs_id_seq'::regclass);
INSERT INTO request_specs (created_at, updated_at, id, instance_uuid, spec) VALUES ('2026-11-18 02:55:29.168317', NULL, 1, 'c6747aef-5503-46ad-afe0-7bcacf8ac018', '{"nova_object.name": "RequestSpec", "nova_object.namespace": "nova", "nova_object.version": "1.15", "nova_object.data": {"image": {"nova_object.name": "ImageMeta", "nova_object.namespace": "nova", "nova_object.version": "1.8", "nova_object.data": {"id": "00000000-0000-4000-8000-000000000001", "name": "tiny", "status": "active", "checksum": "00000000000000000000000000000000", "owner": "admin", "size": 1024, "container_format": "bare", "disk_format": "raw", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "min_ram": 0, "min_disk": 0, "properties": {"nova_object.name": "ImageMetaProps", "nova_object.namespace": "nova", "nova_object.version": "1.44", "nova_object.data": {}}}, "nova_object.changes": ["status", "updated_at", "min_disk", "name", "disk_format", "checksum", "id", "properties", "container_format", "size", "created_at", "min_ram", "owner"]}, "numa_topology": null, "pci_requests": {"nova_object.name": "InstancePCIRequests", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"requests": []}, "nova_object.changes": ["requests"]}, "project_id": "admin", "user_id": "admin", "availability_zone": null, "flavor": {"nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"id": 1, "name": "v1-512-1", "memory_mb": 512, "vcpus": 1, "root_gb": 1, "ephemeral_gb": 0, "flavorid": "v1-512-1", "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": false, "is_public": true, "extra_specs": {}, "description": null, "created_at": "2026-11-18T02:55:28Z", "updated_at": null, "deleted_at": null, "deleted": false}}, "num_instances": 1, "ignore_hosts": null, "force_hosts": null, "force_nodes": null, "requested_destination": null, "retry": null, "limits": {"nova_object.name": "SchedulerLimits", "nova_object.namespace": "nova", "nova_object.version": "1.0", "nova_object.data": {"numa_topology": null, "vcpu": null, "disk_gb": null, "memory_mb": null}, "nova_object.changes": ["numa_topology", "vcpu", "memory_mb", "disk_gb"]}, "instance_group": null, "scheduler_hints": {}, "instance_uuid": "c6747aef-5503-46ad-afe0-7bcacf8ac018", "security_groups": {"nova_object.name": "SecurityGroupList", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"objects": [{"nova_object.name": "SecurityGroup", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"name": "default"}, "nova_object.changes": ["name"]}]}, "nova_object.changes": ["objects"]}, "is_bfv": false, "requested_resources": []}, "nova_object.changes": ["project_id", "requested_destination", "user_id", "image", "force_hosts", "availability_zone", "num_instances", "instance_uuid", "ignore_hosts", "force_nodes", "scheduler_hints", "numa_topology", "instance_group", "flavor", "is_bfv", "pci_requests", "retry", "security_groups", "limits", "requested_resources"]}');
SELECT pg_catalog.setval('request_specs_id_seq', 1, true);
ALTER TABLE ONLY request_specs
    ADD CONSTRAINT request_specs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY request_specs
    ADD CONSTRAINT uniq_request_specs0instance_uuid UNIQUE (instance_uuid);
CREATE INDEX request_spec_instance_uuid_idx ON request_specs USING btree (instance_uuid);
CREATE TABLE instance_mappings (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id integer NOT NULL,
    instance_uuid character varying(36) NOT NULL,
    cell_id integer,
    project_id character varying(255) NOT NULL,
    queued_for_delete boolean,
    user_id character varying(255)
);
INSERT INTO instance_mappings (created_at, updated_at, id, instance_uuid, cell_id, project_id, queued_for_delete, user_id) VALUES ('2026-11-18 02:55:47.168317', NULL, 1, '11111111-1111-4111-8111-111111111111', 2, 'admin', false, 'admin');
INSERT INTO instance_mappings (created_at, updated_at, id, instance_uuid, cell_id, project_id, queued_for_delete, user_id) VALUES ('2026-11-18 02:55:47.168317', NULL, 2, '22222222-2222-4222-8222-222222222222', 1, 'admin', false, 'admin');
INSERT INTO instance_mappings (created_at, updated_at, id, instance_uuid, cell_id, project_id, queued_for_delete, user_id) VALUES ('2026-11-18 02:55:47.168317', NULL, 3, '33333333-3333-4333-8333-333333333333', NULL, 'admin', false, 'admin');
ALTER TABLE ONLY instance_mappings
    ADD CONSTRAINT instance_mappings_pkey PRIMARY KEY (id);
ALTER TABLE ONLY instance_mappings
    ADD CONSTRAINT uniq_instance_mappings0instance_uuid UNIQUE (instance_uuid);
