-- All that `reconcile` needs once the tables are there, for a role of its own. `reconcile.`
-- stands for the schema, `reconcile_role` for the role. Nothing may delete a lease: its row
-- carries the generation.

GRANT USAGE ON SCHEMA reconcile TO reconcile_role;
GRANT SELECT ON reconcile.meta TO reconcile_role;
GRANT SELECT, INSERT, UPDATE ON reconcile.lease, reconcile.bucket TO reconcile_role;
GRANT SELECT, INSERT, UPDATE, DELETE ON reconcile.record TO reconcile_role;
GRANT USAGE ON SEQUENCE reconcile.appended TO reconcile_role;
