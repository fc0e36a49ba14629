-- Tenants: nobody reads, takes or moves another tenant's messages.
\getenv inputdir PG_ABS_SRCDIR
\set topic tenants
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
\set a 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa'
\set b 'BBBBBBBB-BBBB-BBBB-BBBB-BBBBBBBBBBBB'

-- One name, a queue a tenant: own options, messages, offsets, groups.
SET queen.tenant = :'a';
SELECT queen.create_queue('tenants', options => '{"lease_time": "1 minute"}');
SELECT count(queen.push('tenants', to_jsonb('a ' || i))) FROM generate_series(0, 2) i;
SET queen.tenant = :'b';
SELECT count(*) FROM queen.list_queues();
SELECT count(*) FROM queen.pop('tenants');
SELECT attempts(
	$$SELECT * FROM queen.peek('tenants')$$,
	$$SELECT queen.configure('tenants', '{"max_deliveries": 1}')$$);
SELECT count(queen.push('tenants', '"b 0"'));
SELECT queue, partitions, options ->> 'lease_time' AS lease_time FROM queen.list_queues();
SELECT stored('tenants');
SELECT item, state FROM queen.status() WHERE item IN ('tenant', 'queues');
SELECT message FROM queen.pop('tenants', max_messages => 10);
SET queen.tenant = :'a';
SELECT queue, partitions, options ->> 'lease_time' AS lease_time FROM queen.list_queues();
SELECT stored('tenants');
SELECT message FROM take('tenants', max_messages => 10);

-- A lease of another tenant moves nothing, and looks like one that nobody gave.
SET queen.tenant = :'b';
SELECT attempts(
	'SELECT queen.ack(lease())',
	'SELECT queen.ack(lease(), 0)',
	'SELECT queen.ack_all(ARRAY[lease()])',
	'SELECT queen.nack(lease(), dead => true)',
	'SELECT queen.extend(lease(), ''12 hours'')',
	'SELECT queen.release(lease())');
-- Tokens that are put together of a lease of this tenant's and one of the other's: bit 1 of n says whose partition, 2 whose
-- group, 4 whose random part (7: it is the other's lease).
CREATE TABLE own AS SELECT lease FROM queen.pop('tenants', 'own');
SELECT count(lease) FROM own;
CREATE FUNCTION forged(partition_of uuid, group_of uuid, nonce_of uuid) RETURNS uuid LANGUAGE sql AS $$
	-- 36 bits of partition and 12 of group, version 8, 12 of group, the variant, 2 of group, 60 random ones
	SELECT (substr(p, 1, 9) || substr(g, 10, 3) || '8' || substr(g, 14, 3) || substr(g, 17, 1) || substr(n, 18))::uuid
	FROM (SELECT replace(partition_of::text, '-', ''), replace(group_of::text, '-', ''), replace(nonce_of::text, '-', '')) s (p, g, n)
$$;
SELECT forged(lease(), lease(), lease()) = lease() AS same, forged(lease(), lease(), lease) <> lease() AS other FROM own;
CREATE TABLE forgeries AS
SELECT n, forged(CASE WHEN n & 1 > 0 THEN lease() ELSE lease END, CASE WHEN n & 2 > 0 THEN lease() ELSE lease END,
	CASE WHEN n & 4 > 0 THEN lease() ELSE lease END) AS lease FROM own, generate_series(1, 7) n;
SELECT n, attempt(format(call, lease)) FROM forgeries, unnest(ARRAY['SELECT queen.ack(%L)', 'SELECT queen.ack_all(ARRAY[%L::uuid])', 'SELECT queen.nack(%L)',
	'SELECT queen.extend(%L)', 'SELECT queen.release(%L)']) WITH ORDINALITY u (call, m) WHERE m = 1 OR n = 7 ORDER BY n, m;
-- Both leases are as they were.
SELECT queen.ack(lease) FROM own;
SET queen.tenant = :'a';
SELECT queen.extend(lease(), '10 seconds') > now() AS extended;
SET queen.tenant = :'b';

-- Nor does it a group of another tenant: under the same names it is another group.
SELECT queen.subscribe('tenants', 'a only'), queen.unsubscribe('tenants', 'a only');
SELECT queen.pause('tenants'), queen.pause('tenants', 'default'), queen.seek('tenants', 'default', 0), queen.unsubscribe('tenants', 'default');
SET queen.tenant = :'a';
SELECT queen.subscribe('tenants', 'a only');
SET queen.tenant = :'b';
SELECT attempts(
	$$SELECT queen.seek('tenants', 'a only', 0)$$,
	$$SELECT queen.pause('tenants', 'a only')$$,
	$$SELECT * FROM queen.lag('tenants', 'a only')$$,
	$$SELECT queen.unsubscribe('tenants', 'a only')$$);
SELECT consumer_group FROM queen.list_groups('tenants');
SET queen.tenant = :'a';
SELECT consumer_group, paused, lag, leased FROM queen.list_groups('tenants');
-- Emptied and dropped by one tenant, the other's queue of that name is what it was.
SET queen.tenant = :'b';
SELECT queen.resume('tenants'), queen.purge_queue('tenants'), stored('tenants'), queen.drop_queue('tenants');
SELECT count(*) FROM queen.list_queues();
SELECT queen.drop_queue('tenants'), queen.purge_queue('tenants'), count(*) FROM queen.pop('tenants');
SELECT attempts(
	$$SELECT queen.subscribe('tenants', 'b')$$,
	$$SELECT queen.list_groups('tenants')$$,
	$$SELECT queen.lag('tenants', 'default')$$,
	$$SELECT queen.seek_to_end('tenants', 'default')$$,
	$$SELECT queen.resume('tenants', 'a only')$$);
CALL queen.maintain();
SELECT queen.drop_queue('tenants');
SELECT count(queen.push('tenants', '"b 0"'));
SET queen.tenant = :'a';
SELECT stored('tenants');
SELECT consumer_group, paused, lag, leased FROM queen.list_groups('tenants');
RESET queen.tenant;
SELECT attempt('SELECT queen.ack(lease())');
SELECT count(*) FROM queen.list_queues() WHERE queue = 'tenants';
SET queen.tenant = :'a';
SELECT queen.ack(lease(), 0);

-- What fails goes to the dead letters with its tenant; the view of the DBA names it.
SELECT queen.nack(lease(), dead => true);
SELECT message FROM take('tenants');
SELECT queen.nack(lease(), delay => '1 hour');
RESET queen.tenant;
SELECT tenant, queue, msg_offset FROM queen.dead_letters WHERE queue = 'tenants';
SELECT tenant, queue, msg_offset FROM queen.pg_stat_queen_blocked WHERE queue = 'tenants';

-- The setting: a uuid or nothing.
SELECT attempts(
	$$SET queen.tenant = 'no uuid'$$,
	$$SET queen.tenant = '0'$$,
	$$SET queen.tenant = '{aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa}'$$,
	$$SET queen.tenant = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaa'$$,
	$$SET queen.tenant = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaaa'$$,
	$$SET queen.tenant = 'aaaaaaaa-aaaa-aaaa-aaaaaaaaaaaaaaaaa'$$,
	$$SET queen.tenant = 'gaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa'$$,
	$$SELECT set_config('queen.tenant', 'x', false)$$);
SHOW queen.tenant;
-- Nothing, no setting and the zero uuid are the same tenant; so are upper and lower case.
SELECT count(queen.push('tenants zero', '1'));
SET queen.tenant = '00000000-0000-0000-0000-000000000000';
SELECT count(queen.push('tenants zero', '2'));
SET queen.tenant = '';
SELECT stored('tenants zero');
SET queen.tenant = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb';
SELECT stored('tenants');
-- It goes with the transaction that sets it locally.
BEGIN;
SET LOCAL queen.tenant = :'a';
SELECT stored('tenants');
ROLLBACK;
SELECT stored('tenants');
RESET queen.tenant;

-- Only a superuser sets it; a role can have it pinned, and cannot leave it; SET ROLE changes nothing.
CREATE ROLE regress_queen_tenant LOGIN;
CREATE ROLE regress_queen_serves LOGIN;
GRANT USAGE ON SCHEMA queen, test_tenants TO regress_queen_tenant, regress_queen_serves;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queen TO regress_queen_tenant, regress_queen_serves;
ALTER ROLE regress_queen_tenant SET queen.tenant = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa';
GRANT SET ON PARAMETER queen.tenant TO regress_queen_serves;
SET ROLE regress_queen_tenant;
SELECT attempts(
	$$SET queen.tenant = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb'$$,
	$$SET LOCAL queen.tenant = ''$$,
	$$RESET queen.tenant$$,
	$$SELECT set_config('queen.tenant', 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb', true)$$);
SHOW queen.tenant;
RESET ROLE;
SELECT current_database() AS database, current_user AS owner \gset
\c :database regress_queen_tenant
SET search_path = test_tenants;
SELECT queue FROM queen.list_queues();
SELECT stored('tenants');
SELECT attempts(
	$$SET queen.tenant = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb'$$,
	$$SELECT set_config('queen.tenant', 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb', true)$$);
SELECT queue FROM queen.list_queues();
\c :database regress_queen_serves
SET search_path = test_tenants;
SET queen.tenant = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb';
SELECT stored('tenants');
-- A session that sets it before the library is loaded gains nothing.
\c :database regress_queen_tenant
SET client_min_messages = error;
SET search_path = test_tenants;
SELECT count(*) FROM attempt($$SET queen.tenant = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb'$$);
DO $$ BEGIN SET queen.tenant = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb'; EXCEPTION WHEN insufficient_privilege THEN NULL; END $$;
SELECT stored('tenants');
\c :database :owner
DROP OWNED BY regress_queen_tenant, regress_queen_serves;
REVOKE SET ON PARAMETER queen.tenant FROM regress_queen_serves;
DROP ROLE regress_queen_tenant, regress_queen_serves;
