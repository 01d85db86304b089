CREATE TABLE `cell_mappings` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `uuid` varchar(36) NOT NULL,
  `name` varchar(255) DEFAULT NULL,
  `transport_url` text DEFAULT NULL,
  `database_connection` text DEFAULT NULL,
  `disabled` tinyint(1) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_cell_mappings0uuid` (`uuid`),
  KEY `uuid_idx` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `cell_mappings` (`created_at`, `updated_at`, `id`, `uuid`, `name`, `transport_url`, `database_connection`, `disabled`) VALUES ('2026-11-16 23:49:54',NULL,1,'00000000-0000-0000-0000-000000000000','cell0','none:///','mysql+pymysql://nova:secret@db.internal:3306/nova_cell0',0);
INSERT INTO `cell_mappings` (`created_at`, `updated_at`, `id`, `uuid`, `name`, `transport_url`, `database_connection`, `disabled`) VALUES ('2026-11-16 23:49:55',NULL,2,'44b03381-4078-4981-9cfc-18e2dec5ab7a','cell1','rabbit://nova:secret@broker.internal:5672/','mysql+pymysql://nova:secret@db.internal:3306/nova_cell1',0);
CREATE TABLE `host_mappings` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `cell_id` int(11) NOT NULL,
  `host` varchar(255) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_host_mappings0host` (`host`),
  KEY `cell_id` (`cell_id`),
  KEY `host_idx` (`host`),
  CONSTRAINT `host_mappings_ibfk_1` FOREIGN KEY (`cell_id`) REFERENCES `cell_mappings` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `host_mappings` (`created_at`, `updated_at`, `id`, `cell_id`, `host`) VALUES ('2026-11-16 23:50:13',NULL,1,2,'host2');
INSERT INTO `host_mappings` (`created_at`, `updated_at`, `id`, `cell_id`, `host`) VALUES ('2026-11-16 23:50:13',NULL,2,2,'host0');
INSERT INTO `host_mappings` (`created_at`, `updated_at`, `id`, `cell_id`, `host`) VALUES ('2026-11-16 23:50:13',NULL,3,2,'host3');
INSERT INTO `host_mappings` (`created_at`, `updated_at`, `id`, `cell_id`, `host`) VALUES ('2026-11-16 23:50:13',NULL,4,2,'host1');
CREATE TABLE `aggregates` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `uuid` varchar(36) DEFAULT NULL,
  `name` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_aggregate0name` (`name`),
  KEY `aggregate_uuid_idx` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `aggregates` (`created_at`, `updated_at`, `id`, `uuid`, `name`) VALUES ('2026-11-16 23:59:48',NULL,1,'caf4a933-5994-446c-86f5-39a45c007871','east');
INSERT INTO `aggregates` (`created_at`, `updated_at`, `id`, `uuid`, `name`) VALUES ('2026-11-16 23:59:48',NULL,2,'ab87dd0c-0392-41f9-8266-fcd666e77b1c','ssd');
INSERT INTO `aggregates` (`created_at`, `updated_at`, `id`, `uuid`, `name`) VALUES ('2026-11-16 23:59:49',NULL,3,'e8d525bc-46e1-4be9-a14a-98b842657490','empty');
CREATE TABLE `aggregate_hosts` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `host` varchar(255) DEFAULT NULL,
  `aggregate_id` int(11) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_aggregate_hosts0host0aggregate_id` (`host`,`aggregate_id`),
  KEY `aggregate_id` (`aggregate_id`),
  CONSTRAINT `aggregate_hosts_ibfk_1` FOREIGN KEY (`aggregate_id`) REFERENCES `aggregates` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `aggregate_hosts` (`created_at`, `updated_at`, `id`, `host`, `aggregate_id`) VALUES ('2026-11-16 23:59:48',NULL,1,'host0',1);
INSERT INTO `aggregate_hosts` (`created_at`, `updated_at`, `id`, `host`, `aggregate_id`) VALUES ('2026-11-16 23:59:48',NULL,2,'host1',1);
INSERT INTO `aggregate_hosts` (`created_at`, `updated_at`, `id`, `host`, `aggregate_id`) VALUES ('2026-11-16 23:59:48',NULL,3,'host1',2);
INSERT INTO `aggregate_hosts` (`created_at`, `updated_at`, `id`, `host`, `aggregate_id`) VALUES ('2026-11-16 23:59:49',NULL,4,'host2',2);
CREATE TABLE `aggregate_metadata` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `aggregate_id` int(11) NOT NULL,
  `key` varchar(255) NOT NULL,
  `value` varchar(255) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_aggregate_metadata0aggregate_id0key` (`aggregate_id`,`key`),
  KEY `aggregate_metadata_key_idx` (`key`),
  CONSTRAINT `aggregate_metadata_ibfk_1` FOREIGN KEY (`aggregate_id`) REFERENCES `aggregates` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `aggregate_metadata` (`created_at`, `updated_at`, `id`, `aggregate_id`, `key`, `value`) VALUES ('2026-11-16 23:59:48',NULL,1,1,'availability_zone','zone-east');
INSERT INTO `aggregate_metadata` (`created_at`, `updated_at`, `id`, `aggregate_id`, `key`, `value`) VALUES ('2026-11-16 23:59:49',NULL,2,2,'disk','ssd');
INSERT INTO `aggregate_metadata` (`created_at`, `updated_at`, `id`, `aggregate_id`, `key`, `value`) VALUES ('2026-11-16 23:59:49',NULL,3,2,'note','café');
CREATE TABLE `instance_groups` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `user_id` varchar(255) DEFAULT NULL,
  `project_id` varchar(255) DEFAULT NULL,
  `uuid` varchar(36) NOT NULL,
  `name` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_instance_groups0uuid` (`uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `instance_groups` (`created_at`, `updated_at`, `id`, `user_id`, `project_id`, `uuid`, `name`) VALUES ('2026-11-16 23:59:49',NULL,1,'admin','admin','cc74da71-c823-4de2-899b-e65b748113ed','spread');
INSERT INTO `instance_groups` (`created_at`, `updated_at`, `id`, `user_id`, `project_id`, `uuid`, `name`) VALUES ('2026-11-16 23:59:49',NULL,2,'admin','admin','ce424e31-36e6-427f-babf-f5bf61a9c34a','near');
CREATE TABLE `instance_group_policy` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `policy` varchar(255) DEFAULT NULL,
  `group_id` int(11) NOT NULL,
  `rules` text DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `group_id` (`group_id`),
  KEY `instance_group_policy_policy_idx` (`policy`),
  CONSTRAINT `instance_group_policy_ibfk_1` FOREIGN KEY (`group_id`) REFERENCES `instance_groups` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `instance_group_policy` (`created_at`, `updated_at`, `id`, `policy`, `group_id`, `rules`) VALUES ('2026-11-16 23:59:49',NULL,1,'anti-affinity',1,'{\"max_server_per_host\": \"2\"}');
INSERT INTO `instance_group_policy` (`created_at`, `updated_at`, `id`, `policy`, `group_id`, `rules`) VALUES ('2026-11-16 23:59:49',NULL,2,'soft-affinity',2,'{}');
CREATE TABLE `instance_group_member` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_uuid` varchar(255) DEFAULT NULL,
  `group_id` int(11) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `group_id` (`group_id`),
  KEY `instance_group_member_instance_idx` (`instance_uuid`),
  CONSTRAINT `instance_group_member_ibfk_1` FOREIGN KEY (`group_id`) REFERENCES `instance_groups` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `instance_group_member` (`created_at`, `updated_at`, `id`, `instance_uuid`, `group_id`) VALUES ('2026-11-16 23:59:51',NULL,1,'a990acea-6579-48c9-9f4a-a2925e78c1d6',1);
INSERT INTO `instance_group_member` (`created_at`, `updated_at`, `id`, `instance_uuid`, `group_id`) VALUES ('2026-11-16 23:59:51',NULL,2,'95d2a0d3-6373-4fef-8288-5b21e9ae1632',2);
CREATE TABLE `request_specs` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_uuid` varchar(36) NOT NULL,
  `spec` mediumtext NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_request_specs0instance_uuid` (`instance_uuid`),
  KEY `request_spec_instance_uuid_idx` (`instance_uuid`)
) ENGINE=InnoDB AUTO_INCREMENT=230 DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `request_specs` (`created_at`, `updated_at`, `id`, `instance_uuid`, `spec`) VALUES ('2026-11-18 02:55:47',NULL,229,'1ca891e1-bfb5-4098-8d2f-fb71c961e2aa','{\"nova_object.name\": \"RequestSpec\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.15\", \"nova_object.data\": {\"image\": {\"nova_object.name\": \"ImageMeta\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.8\", \"nova_object.data\": {\"id\": \"00000000-0000-4000-8000-000000000001\", \"name\": \"tiny\", \"status\": \"active\", \"checksum\": \"00000000000000000000000000000000\", \"owner\": \"admin\", \"size\": 1024, \"container_format\": \"bare\", \"disk_format\": \"raw\", \"created_at\": \"2026-01-01T00:00:00Z\", \"updated_at\": \"2026-01-01T00:00:00Z\", \"min_ram\": 0, \"min_disk\": 0, \"properties\": {\"nova_object.name\": \"ImageMetaProps\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.44\", \"nova_object.data\": {}}}, \"nova_object.changes\": [\"status\", \"updated_at\", \"owner\", \"properties\", \"container_format\", \"checksum\", \"size\", \"min_ram\", \"min_disk\", \"created_at\", \"disk_format\", \"id\", \"name\"]}, \"numa_topology\": null, \"pci_requests\": {\"nova_object.name\": \"InstancePCIRequests\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"requests\": []}, \"nova_object.changes\": [\"requests\"]}, \"project_id\": \"admin\", \"user_id\": \"admin\", \"availability_zone\": null, \"flavor\": {\"nova_object.name\": \"Flavor\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.2\", \"nova_object.data\": {\"id\": 1, \"name\": \"v1-512-1\", \"memory_mb\": 512, \"vcpus\": 1, \"root_gb\": 1, \"ephemeral_gb\": 0, \"flavorid\": \"v1-512-1\", \"swap\": 0, \"rxtx_factor\": 1.0, \"vcpu_weight\": 0, \"disabled\": false, \"is_public\": true, \"extra_specs\": {}, \"description\": null, \"created_at\": \"2026-11-18T02:24:13Z\", \"updated_at\": null, \"deleted_at\": null, \"deleted\": false}}, \"num_instances\": 1, \"ignore_hosts\": null, \"force_hosts\": null, \"force_nodes\": null, \"requested_destination\": null, \"retry\": null, \"limits\": {\"nova_object.name\": \"SchedulerLimits\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.0\", \"nova_object.data\": {\"numa_topology\": null, \"vcpu\": null, \"disk_gb\": null, \"memory_mb\": null}, \"nova_object.changes\": [\"memory_mb\", \"vcpu\", \"disk_gb\", \"numa_topology\"]}, \"instance_group\": null, \"scheduler_hints\": {}, \"instance_uuid\": \"1ca891e1-bfb5-4098-8d2f-fb71c961e2aa\", \"security_groups\": {\"nova_object.name\": \"SecurityGroupList\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.1\", \"nova_object.data\": {\"objects\": [{\"nova_object.name\": \"SecurityGroup\", \"nova_object.namespace\": \"nova\", \"nova_object.version\": \"1.2\", \"nova_object.data\": {\"name\": \"default\"}, \"nova_object.changes\": [\"name\"]}]}, \"nova_object.changes\": [\"objects\"]}, \"is_bfv\": false, \"requested_resources\": []}, \"nova_object.changes\": [\"requested_destination\", \"scheduler_hints\", \"user_id\", \"project_id\", \"security_groups\", \"image\", \"ignore_hosts\", \"is_bfv\", \"instance_uuid\", \"force_hosts\", \"limits\", \"retry\", \"availability_zone\", \"flavor\", \"pci_requests\", \"num_instances\", \"numa_topology\", \"instance_group\", \"requested_resources\", \"force_nodes\"]}');
CREATE TABLE `instance_mappings` (
  `created_at` datetime DEFAULT NULL,
  `updated_at` datetime DEFAULT NULL,
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `instance_uuid` varchar(36) NOT NULL,
  `cell_id` int(11) DEFAULT NULL,
  `project_id` varchar(255) NOT NULL,
  `queued_for_delete` tinyint(1) DEFAULT NULL,
  `user_id` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_instance_mappings0instance_uuid` (`instance_uuid`),
  KEY `cell_id` (`cell_id`),
  KEY `project_id_idx` (`project_id`),
  KEY `instance_mappings_user_id_project_id_idx` (`user_id`,`project_id`),
  KEY `instance_uuid_idx` (`instance_uuid`),
  CONSTRAINT `instance_mappings_ibfk_1` FOREIGN KEY (`cell_id`) REFERENCES `cell_mappings` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `instance_mappings` (`created_at`, `updated_at`, `id`, `instance_uuid`, `cell_id`, `project_id`, `queued_for_delete`, `user_id`) VALUES ('2026-11-18 02:55:47',NULL,1,'11111111-1111-4111-8111-111111111111',2,'admin',0,'admin');
INSERT INTO `instance_mappings` (`created_at`, `updated_at`, `id`, `instance_uuid`, `cell_id`, `project_id`, `queued_for_delete`, `user_id`) VALUES ('2026-11-18 02:55:47',NULL,2,'22222222-2222-4222-8222-222222222222',1,'admin',0,'admin');
INSERT INTO `instance_mappings` (`created_at`, `updated_at`, `id`, `instance_uuid`, `cell_id`, `project_id`, `queued_for_delete`, `user_id`) VALUES ('2026-11-18 02:55:47',NULL,3,'33333333-3333-4333-8333-333333333333',NULL,'admin',0,'admin');
