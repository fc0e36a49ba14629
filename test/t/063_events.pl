# Event counts are exact under load with rollbacks and savepoints, belong to a database and its tables, are gone after a crash, and a standby counts
# nothing. And who keeps dead rows is named.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('events', streaming => 1, settings => "max_prepared_transactions = 5\nstatement_timeout = '60s'\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

# ---- load: what each transaction does it writes down, in the same transaction ----

$sql->(q{SELECT queen.create_queue(q, 'log', '{"retry_delay": 0, "max_deliveries": 3}') FROM unnest(ARRAY['log1', 'log2']) q;
	SELECT queen.create_queue(q, 'work', '{"retry_delay": 0, "max_delivery_attempts": 3}') FROM unnest(ARRAY['work1', 'work2']) q});
$sql->(<<'SQL');
CREATE TABLE done (queue text, who text, event text, n bigint);
CREATE FUNCTION one(VARIADIC names text[]) RETURNS text LANGUAGE sql AS $$ SELECT names[1 + floor(random() * cardinality(names))::int] $$;
CREATE FUNCTION put(n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	log text := one('log1', 'log2'); work text := one('work1', 'work2'); priority text := one('high', 'medium', 'low');
BEGIN
	PERFORM queen.push_batch(log, to_jsonb(array_fill('12345678'::text, ARRAY[n])), one('a', 'b', 'c', 'd'));
	PERFORM queen.enqueue_batch(work, to_jsonb(array_fill(1, ARRAY[n])), priority);
	INSERT INTO done VALUES (log, 'log', 'added', n), (work, priority, 'added', n);
END $$;
-- what is to become of what is taken: written down per queue and group
CREATE FUNCTION take_log(n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	log text := one('log1', 'log2'); g text := one('g1', 'g2'); m record; auto boolean := random() < 0.2; dead bigint;
BEGIN
	FOR m IN SELECT p.lease, count(*) AS n, bool_or(p.attempt > 1) AS again, max(p.msg_offset) AS last
		FROM queen.pop(log, g, n, max_partitions => 3, auto_ack => auto) p GROUP BY p.lease, p.partition
	LOOP
		INSERT INTO done VALUES (log, g, 'delivered', m.n), (log, g, 'redelivered', CASE WHEN m.again THEN m.n ELSE 0 END);
		IF auto THEN
			INSERT INTO done VALUES (log, g, 'completed', m.n);
		ELSIF random() < 0.3 THEN
			-- of one, so that nothing is completed below it
			IF queen.nack(m.lease) = 'dead' THEN
				INSERT INTO done VALUES (log, g, 'dead', 1);
			END IF;
			INSERT INTO done VALUES (log, g, 'rejected', 1);
		ELSIF random() < 0.2 AND m.n > 1 THEN
			PERFORM queen.nack(m.lease, m.last, dead => true);
			INSERT INTO done VALUES (log, g, 'completed', m.n - 1), (log, g, 'rejected', 1), (log, g, 'dead', 1);
		ELSIF random() < 0.1 THEN
			PERFORM queen.release(m.lease);
		ELSE
			INSERT INTO done VALUES (log, g, 'completed', queen.ack(m.lease));
		END IF;
	END LOOP;
END $$;
CREATE FUNCTION take_work(n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	work text := one('work1', 'work2'); m record;
BEGIN
	FOR m IN SELECT * FROM queen.dequeue(work, n)
	LOOP
		INSERT INTO done VALUES (work, m.priority, 'delivered', 1), (work, m.priority, 'redelivered', (m.attempt > 1)::int);
		IF random() < 0.3 THEN
			INSERT INTO done VALUES (work, m.priority, 'rejected', queen.reject(m.message_id, m.receipt)::int);
		ELSIF random() < 0.1 THEN
			PERFORM queen.change_visibility(m.message_id, m.receipt, '0');
		ELSE
			INSERT INTO done VALUES (work, m.priority, 'completed', queen.acknowledge(m.message_id, m.receipt)::int);
		END IF;
	END LOOP;
END $$;
SQL
my %scripts = (
	'put@4' => "SELECT put(1);\n",
	'batch@2' => "SELECT put(20);\n",
	'log@5' => "SELECT take_log(5);\n",
	'work@5' => "SELECT take_work(5);\n",
	'two@2' => "BEGIN;\nSELECT put(3);\nSELECT take_log(2);\nSELECT take_work(2);\nSELECT put(2);\nCOMMIT;\n",
	'back@2' => "BEGIN;\nSELECT put(3);\nSELECT take_log(5);\nSELECT take_work(5);\nROLLBACK;\n",
	'points@3' => "BEGIN;\nSELECT put(2);\nSAVEPOINT a;\nSELECT take_log(3);\nSELECT take_work(3);\nSAVEPOINT b;\nSELECT put(2);\nRELEASE b;\nROLLBACK TO a;\nSAVEPOINT c;\nSELECT put(1);\nSELECT take_work(3);\nRELEASE c;\nCOMMIT;\n",
);
ok(finish_load(load($node, '-c 8 -j 2 -T 8', %scripts), 'load'), 'nobody met an error');

my $kinds = join(', ', map { "('$_', e.$_)" } qw(added delivered redelivered completed rejected));
my $counted = qq{SELECT q.name AS queue, coalesce(g.name, e.priority, 'log') AS who, k.event, k.n
	FROM queen.stat_events() e JOIN queen.queues q USING (queue_id) LEFT JOIN queen.log_groups g USING (group_id),
	LATERAL (VALUES $kinds) k(event, n) WHERE k.n <> 0};
# what its groups have done counts for a log as well
my $wanted = q{SELECT queue, who, event, sum(n)::bigint FROM (SELECT * FROM done UNION ALL SELECT queue, 'log', event, n FROM done WHERE who IN ('g1', 'g2')) d
	WHERE event <> 'dead' GROUP BY 1, 2, 3 HAVING sum(n) <> 0};
is($sql->("($counted EXCEPT ALL $wanted) UNION ALL ($wanted EXCEPT ALL $counted)"), '', 'each count is what was written down');
is($sql->("SELECT count(DISTINCT (queue, who)) FROM ($counted) c"), '12', 'of two logs, two groups in each, three priorities in two work queues');
cmp_ok($sql->("SELECT min(n) FROM (SELECT sum(n) AS n FROM ($counted) c GROUP BY event, who IN ('log', 'g1', 'g2')) c"), '>', 10, 'each kind of thing has happened');
is($sql->(q{SELECT sum(e.added) = (SELECT sum(end_offset - base_offset + 1) FROM queen.log_segments) FROM queen.stat_events() e WHERE group_id IS NULL AND priority IS NULL}), 't', 'as many were pushed as there are');
is($sql->(q{SELECT sum(e.added - e.completed - e.dead) = (SELECT count(*) FROM queen.messages) FROM queen.stat_events() e WHERE priority IS NOT NULL}), 't', 'as many came and did not go as there are');
is($sql->(q{SELECT bool_and(n = (SELECT count(*) FROM queen.dead_letters l WHERE l.queue = d.name AND l.consumer_group IS NOT DISTINCT FROM d.who)) AND sum(n) > 0 FROM (
	SELECT q.name, g.name AS who, sum(e.dead) AS n FROM queen.stat_events() e JOIN queen.queues q USING (queue_id) LEFT JOIN queen.log_groups g USING (group_id)
	WHERE group_id IS NOT NULL OR priority IS NOT NULL GROUP BY 1, 2) d}), 't', 'as many died as there are dead letters');
is($sql->(q{SELECT evicted, lost FROM queen.pg_stat_queen_events}), '0|0', 'nothing was given up');

# ---- a commit that is counted is counted when it answers; what is prepared is not ----

$sql->(q{SELECT queen.create_queue('one')});
is($sql->(q{SELECT queen.push('one', '1')}) ne '' && $sql->(q{SELECT added FROM queen.stat_events() JOIN queen.queues q USING (queue_id) WHERE q.name = 'one'}), '1', 'the next statement sees it');
$sql->(q{BEGIN; SELECT queen.push('one', '2'); PREPARE TRANSACTION 'p'});
$sql->(q{COMMIT PREPARED 'p'});
is($sql->(q{SELECT added FROM queen.stat_events() JOIN queen.queues q USING (queue_id) WHERE q.name = 'one'}), '1', 'what was prepared counts for nothing');

# ---- reset beside load: nothing is counted twice or negative ----

my $load = load($node, '-c 4 -T 3', put => "SELECT queen.push('one', '1');\n");
my $resets = 0;
while ($load->{h}->pumpable && time < $load->{started} + 2.5)
{
	$sql->('SELECT queen.reset_state_stats()');
	$resets++;
	$load->{h}->pump_nb;
}
finish_load($load, 'load beside resets');
cmp_ok($resets, '>', 5, 'several resets');
is($sql->(q{SELECT added > 0 AND added < (SELECT sum(end_offset - base_offset + 1) FROM queen.log_segments) FROM queen.stat_events() JOIN queen.queues q USING (queue_id) WHERE q.name = 'one'}), 't', 'counts go on from the last one');

# ---- who may look, and who may not reset ----

$sql->('CREATE ROLE watcher IN ROLE pg_monitor');
is($sql->(q{SET ROLE watcher; SELECT count(*) > 0 FROM queen.stat_events()}), 't', 'pg_monitor reads them');
is($sql->(q{SET ROLE watcher; SELECT count(*) FROM queen.pg_stat_queen_events}), '1', 'and how much room there is');
my (undef, undef, $err) = $node->psql('postgres', 'SET ROLE watcher; SELECT queen.reset_state_stats()');
like($err, qr/permission denied for function reset_state_stats/, 'but does not reset them');

# ---- another database has its own; one that gets the oid of a dropped one begins at nothing ----

$sql->('CREATE DATABASE model');
$node->safe_psql('model', q{CREATE EXTENSION queen; SELECT queen.create_queue('one')});
# who works there leaves when it is copied
$sql->('CREATE DATABASE other TEMPLATE model OID 90000');
is($node->safe_psql('other', 'SELECT count(*) FROM queen.stat_events()'), '0', 'a new database has counted nothing');
$node->safe_psql('other', q{SELECT queen.push('one', '1')});
is($node->safe_psql('other', 'SELECT added FROM queen.stat_events()'), '1', 'it counts its own');
$sql->('DROP DATABASE other WITH (FORCE)');
$sql->('CREATE DATABASE other TEMPLATE model OID 90000');
is($node->safe_psql('other', 'SELECT count(*) FROM queen.stat_events()'), '0', 'another one with its oid does not inherit them');
$node->safe_psql('other', q{SELECT queen.push('one', '1'); DROP EXTENSION queen CASCADE; CREATE EXTENSION queen; SELECT queen.create_queue('one')});
is($node->safe_psql('other', 'SELECT count(*) FROM queen.stat_events()'), '0', 'nor do tables that are made again');

# ---- a transaction of too many objects: what it could not note is said to be lost ----

$sql->('SELECT queen.reset_state_stats()');
my $lost = $sql->(q{DO $$ BEGIN FOR i IN 1 .. 5600 LOOP
		PERFORM queen.enqueue('many ' || i, '1', p) FROM unnest(ARRAY['low', 'medium', 'high']) p;
	END LOOP; END $$;
	SELECT lost FROM queen.pg_stat_queen_events});
cmp_ok($lost, '>', 0, 'some was not counted');
# an addition, and its bytes
is($sql->("SELECT sum(added) + $lost / 2 FROM queen.stat_events() JOIN queen.queues USING (queue_id) WHERE starts_with(name, 'many')"), '16800', 'and all else was');
$sql->(q{BEGIN; SELECT queen.enqueue('many 1', '1', 'low'); SELECT queen.enqueue('many 5600', '1', 'high'); COMMIT});
is($sql->(q{SELECT string_agg(added::text, ' ') FROM queen.stat_events() JOIN queen.queues USING (queue_id) WHERE name = 'many 5600'}), '1', 'the next transaction counts as ever');

# ---- what the tables take up, and who keeps it ----

my $holder = "SELECT DISTINCT horizon_kind, horizon_name, horizon_age > 0, horizon_since IS NOT NULL FROM queen.pg_stat_queen_storage";
is($sql->('SELECT count(*) = (SELECT count(*) FROM pg_class WHERE relnamespace = \'queen\'::regnamespace AND relkind = \'r\') FROM queen.pg_stat_queen_storage'), 't', 'each table has a row');
is($sql->(q{SELECT bool_and(total_bytes = pg_total_relation_size('queen.' || table_name)) AND bool_and(total_bytes = heap_bytes + toast_bytes + index_bytes) FROM queen.pg_stat_queen_storage}), 't', 'sizes add up');
is($sql->($holder), '|||f', 'nobody holds anything');
my $open = background($node);
$open->query_safe(q{SET application_name = 'sleeper'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
$sql->(q{SELECT queen.enqueue('work1', '1') FROM generate_series(1, 10)}) for 1 .. 3;
is($sql->($holder), 'backend|sleeper|t|t', 'an open snapshot is named');
is($sql->(q{SELECT DISTINCT horizon_pid = (SELECT pid FROM pg_stat_activity WHERE application_name = 'sleeper') FROM queen.pg_stat_queen_storage}), 't', 'with its process');
is($sql->(q{SET ROLE watcher; } . $holder), 'backend|sleeper|t|t', 'to pg_monitor as well');
$sql->(q{DELETE FROM queen.dead_letters; VACUUM queen.dead_letters});
wait_for_sql($node, q{SELECT dead_rows > 0 AND dead_bytes > 0 AND last_vacuum IS NOT NULL AND dead_bytes <= heap_bytes FROM queen.pg_stat_queen_storage WHERE table_name = 'dead_letters'}, 'dead rows that are kept');
$open->query_safe('COMMIT');
$open->quit;
$sql->(q{VACUUM queen.dead_letters});
wait_for_sql($node, q{SELECT dead_rows = 0 AND dead_bytes = 0 FROM queen.pg_stat_queen_storage WHERE table_name = 'dead_letters'}, 'none is left');

# a file that is free space for the most part: what few dead rows take is not a part of that
$sql->(q{TRUNCATE queen.messages; ALTER TABLE queen.messages SET (autovacuum_enabled = off); SELECT queen.create_queue('peak', 'work');
	SELECT count(*) FROM generate_series(1, 20) i, LATERAL queen.enqueue_batch('peak', (SELECT jsonb_agg((SELECT string_agg(md5(i::text || j || k), '') FROM generate_series(1, 30) k)) FROM generate_series(1, 500) j))});
# told at once: a vacuum counts anew, and what is told behind it is counted on top
$sql->(q{DELETE FROM queen.messages WHERE enqueue_order % 20 <> 0; SELECT pg_stat_force_next_flush()});
$sql->('VACUUM (ANALYZE) queen.messages');
my ($mean, $live) = split /\|/, $sql->('SELECT avg(pg_column_size(m.*))::int, count(*) FROM queen.messages m');
cmp_ok($live, '<', 600, 'few are left of many');
my $dead = $sql->(q{WITH d AS (DELETE FROM queen.messages WHERE enqueue_order % 40 = 0 RETURNING 1) SELECT count(*) FROM d});
wait_for_sql($node, qq{SELECT dead_rows = $dead FROM queen.pg_stat_queen_storage WHERE table_name = 'messages'}, 'dead rows behind a peak');
my ($bytes, $heap) = split /\|/, $sql->(q{SELECT dead_bytes, heap_bytes FROM queen.pg_stat_queen_storage WHERE table_name = 'messages'});
cmp_ok($heap, '>', 10 * $mean * $live, 'the file is as large as it was');
cmp_ok($bytes, '>', 0.7 * $mean * $dead, 'dead rows take what rows take');
cmp_ok($bytes, '<', 1.5 * $mean * $dead, 'and not more');
$sql->(q{ALTER TABLE queen.messages RESET (autovacuum_enabled)});
$sql->(q{BEGIN; SELECT queen.push('one', '1'); PREPARE TRANSACTION 'forgotten'});
$sql->(q{SELECT queen.push('one', '1')}) for 1 .. 3;
is($sql->($holder), 'prepared transaction|forgotten|t|t', 'a prepared transaction is named');
$sql->(q{ROLLBACK PREPARED 'forgotten'});

# ---- a standby counts nothing; its feedback holds what it reads ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('events_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$sql->(q{SELECT pg_create_physical_replication_slot('of_standby')});
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nwal_receiver_status_interval = 1\n");
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', 'SELECT count(*) FROM queen.stat_events()'), '0', 'a standby has counted nothing');
is($standby->safe_psql('postgres', 'SELECT used, evicted FROM queen.pg_stat_queen_events'), '0|0', 'and says so');
is($standby->safe_psql('postgres', 'SELECT count(*) > 10 FROM queen.pg_stat_queen_storage'), 't', 'sizes are there');
$open = background($standby);
$open->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
$sql->(q{SELECT queen.push('one', '1')}) for 1 .. 3;
wait_for_sql($node, q{SELECT bool_and(horizon_kind = 'standby' AND horizon_age > 0 AND horizon_name = 'events_standby') FROM queen.pg_stat_queen_storage}, 'a standby is named');
$standby->append_conf('postgresql.conf', "primary_slot_name = 'of_standby'\n");
$standby->reload;
wait_for_sql($node, q{SELECT bool_and(horizon_kind = 'replication slot' AND horizon_name = 'of_standby' AND horizon_since IS NULL) FROM queen.pg_stat_queen_storage}, 'a slot is named');
$open->quit;
$standby->stop;

# ---- a crash of the server ----

$sql->(q{SELECT pg_drop_replication_slot('of_standby')});
my $since = $sql->('SELECT since FROM queen.pg_stat_queen_events');
kill_and_revive($node, 0);
is($sql->('SELECT count(*) FROM queen.stat_events()'), '0', 'after a crash counts begin at nothing');
is($sql->("SELECT used, since > '$since' FROM queen.pg_stat_queen_events"), '0|t', 'and are said to begin there');
$sql->(q{SELECT queen.push('one', '1')});
is($sql->(q{SELECT added FROM queen.stat_events()}), '1', 'and go on');

check_log($node);
$node->stop;

# ---- memory for few: what has not changed for longest is given up, and said to be ----

my $small = new_node('events_small', settings => "queen.state_queues = 64\nqueen.state_groups = 64\nqueen.collect_interval = 0\n");
$sql = sub { return $small->safe_psql('postgres', $_[0]) };
my $places = $sql->('SELECT places FROM queen.pg_stat_queen_events');
cmp_ok($places, '>=', 4 * 64, 'room for as many as the views show');
cmp_ok($places, '<', 320, 'and not for many more');
$sql->(q{SELECT queen.push('q' || i, '1') FROM generate_series(1, 320) i});
is($sql->('SELECT used + evicted, used <= places, last_evicted IS NOT NULL FROM queen.pg_stat_queen_events'), '320|t|t', 'some were given up');
is($sql->('SELECT count(*) = (SELECT used FROM queen.pg_stat_queen_events), min(added), max(added) FROM queen.stat_events()'), 't|1|1', 'the others are counted');
$sql->('SELECT queen.collect()');
is($sql->(q{SELECT bool_and(v.added = 0 AND v.stats_reset = m.last_evicted) AND count(*) > 0 FROM queen.pg_stat_queen_queues v, queen.pg_stat_queen_events m
	WHERE v.queue_id NOT IN (SELECT queue_id FROM queen.stat_events())}), 't', 'of one that was given up nothing is claimed');
is($sql->(q{SELECT bool_and(v.added = 1 AND v.stats_reset = e.stats_reset) AND count(*) > 0 FROM queen.pg_stat_queen_queues v JOIN queen.stat_events() e USING (queue_id)}), 't', 'and of the others what is so');
$sql->(q{SELECT queen.push('q320', '1')}) for 1 .. 20;
$sql->(q{SELECT queen.push('p' || i, '1') FROM generate_series(1, 100) i});
is($sql->(q{SELECT added >= 20 FROM queen.stat_events() JOIN queen.queues USING (queue_id) WHERE name = 'q320'}), 't', 'one that is used stays');
# many who take places from each other
$sql->(q{SELECT queen.create_queue('w' || i, 'work') FROM generate_series(1, 600) i});
finish_load(load($small, '-c 8 -j 2 -T 4', churn => "SELECT count(queen.enqueue('w' || (1 + floor(random() * 600))::int, '1', 'low')) FROM generate_series(1, 40);\n"), 'commits to more objects than there are places');
is($sql->('SELECT used = (SELECT count(*) FROM queen.stat_events()), used <= places, evicted > 1000 FROM queen.pg_stat_queen_events'), 't|t|t', 'give and take places, one by one');
is($sql->('SELECT count(*) FROM (SELECT FROM queen.stat_events() GROUP BY queue_id, priority, group_id HAVING count(*) > 1) twice'), '0', 'and none has two');
check_log($small);
done_testing();
