# Dump.pm: a server with something of everything in its queues, dumped while it works, and the check that a copy of it goes on
# from what the dump's snapshot saw. One check for all who restore: the test that made the dump, and one under another version
# of PostgreSQL, which gets the dump and what is to be in it from a directory.
package Dump;

use strict;
use warnings;

use Catalog;
use Exporter 'import';
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(sleep);

our @EXPORT = qw(dump_node fill_queues dump_at_work check_copy install_as_dumped keep_dump kept_dump);

my $first = 'RESET queen.tenant; ';
my $second = "SET queen.tenant = '00000000-0000-0000-0000-000000000002'; ";
my $odd = q{'Größe "1"; \\ $$'};

# A server without the extension. Who owns the schema is not who restores it.
sub dump_node
{
	my ($name, %options) = @_;
	my $node = new_node($name, settings => "max_prepared_transactions = 5\n", no_extension => 1, %options);

	$node->safe_psql('postgres', 'CREATE ROLE founder SUPERUSER LOGIN; CREATE ROLE app');
	return $node;
}

# The extension, with rights that somebody was given.
sub install_as_dumped
{
	my ($node, $database) = @_;

	$node->safe_psql($database, 'SET ROLE founder; CREATE EXTENSION queen; RESET ROLE; CREATE EXTENSION queen_test');
	$node->safe_psql($database, 'GRANT USAGE ON SCHEMA queen TO app; GRANT EXECUTE ON FUNCTION queen.lag TO app');
}

# A row of every kind in every table. Leases and delays of the longest: a dump may be restored hours later.
sub fill_queues
{
	my ($node) = @_;
	my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

	install_as_dumped($node, 'postgres');

	# a partition that expired, and one whose beginning was deleted
	$sql->(q{SELECT queen.create_queue('aged', options => '{"retention": "1 ms"}'); SELECT queen.push('aged', '0', 'gone')});
	$sql->(q{SELECT pg_sleep(1.1)});
	$sql->('CALL queen.maintain()');
	$sql->("SET queen.partition_expiry = 1; CALL queen.maintain()");
	$sql->(q{SELECT queen.push('aged', '0', 'begins late')});
	$sql->('SELECT pg_sleep(0.05)');
	$sql->('CALL queen.maintain()');
	$sql->(q{SELECT queen.configure('aged', '{"retention": null}'); SELECT queen.push('aged', '1', 'begins late')});

	$sql->(q{SELECT queen.create_queue('all', options => '{"lease_time": "2 h", "max_deliveries": 7, "retry_delay": "1 h", "compression": "zstd:3",
		"delayed_processing": 0.001, "window_buffer": 0.001, "dedup_window": "1 day", "dedup": "drop", "retention": "10 days",
		"completed_retention": "2 days", "group_expiry": "30 days", "dead_retention": "3 days"}')});
	# of every kind: JSON and bytes, headers, large and not to be compressed
	$sql->(qq{SELECT queen.push($odd, '{"é": [null, 1.50, "\\u00e9"]}', $odd, headers => '{"ü": "1"}'); SELECT queen.push_bytes($odd, '\\x00ff', $odd);
		SELECT queen.push($odd, to_jsonb(repeat('x', 2000000)), $odd);
		SELECT queen.push_bytes($odd, (SELECT string_agg(sha512(n::text::bytea), '') FROM generate_series(1, 5000) n), $odd);
		SELECT queen.pop($odd, $odd, auto_ack => true)});
	$sql->($second . q{SELECT queen.push('all', '"of the second"'); SELECT queen.subscribe('all', 'g')});
	$sql->(q{SELECT queen.push('all', '"keyed"', 'keys', dedup_key => 'k')});
	my $original = $sql->(q{SELECT message_id FROM queen.log_txns});

	# a hole, and one that is none yet
	$sql->(q{SELECT queen.push('all', '0', 'holes')});
	$node->psql('postgres', q{BEGIN; SELECT queen.push('all', '1', 'holes'), queen_test_fail_at_commit(); COMMIT});
	$sql->(q{SELECT queen.push('all', '2', 'holes')});
	$sql->(q{BEGIN; SELECT queen.push('all', '3', 'holes'); PREPARE TRANSACTION 'later'; SELECT queen.push('all', '4', 'holes')});

	# a timer and a rule that are due long after the test
	$sql->(q{SELECT queen.schedule('later', 'k', '"timer"', deliver_at => '2200-01-01', headers => '{"h": 1}'); SELECT queen.schedule_cron('later', 'k', '0 0 29 2 *', '"rule"', 'Europe/Berlin', 'once')});

	# groups and what they have taken
	$sql->(q{SELECT queen.push_batch('groups', '[0, 1, 2, 3, 4]'); SELECT queen.subscribe('groups', g, s) FROM (VALUES ('early', 'earliest'),
		('late', 'latest'), ('timed', now()::text), ('paused', 'earliest'), ('retired', 'latest')) v (g, s); SELECT queen.pause('groups', 'paused')});
	my $lease = $sql->(q{SELECT DISTINCT lease FROM queen.pop('groups', 'leases', 3, lease_time => '11 h')});
	my $over = $sql->(q{SELECT lease FROM queen.pop('groups', 'over', lease_time => '1 s')});
	$sql->(q{SELECT queen.nack(lease, delay => '12 h', error => 'é') FROM queen.pop('groups', 'nacks')});
	$sql->(q{SELECT queen.nack(lease, error => 'given up', dead => true) FROM queen.pop('groups', 'early')});
	$sql->(q{SELECT queen.unsubscribe('groups', 'retired')});
	foreach my $queue ('dropped', 'purged')
	{
		$sql->("SELECT queen.push('$queue', '1'); SELECT queen.pop('$queue'); SELECT queen.nack(lease, dead => true) FROM queen.pop('$queue', 'other')");
	}
	$sql->(q{SELECT queen.drop_queue('dropped'); SELECT queen.purge_queue('purged')});
	# a work queue: under a receipt, over, rejected, given up, never delivered, and as a timer
	$sql->(q{SELECT queen.create_queue('work', 'work', '{"visibility_timeout": "2 h", "max_delivery_attempts": 2, "message_ttl": "20 days", "retry_delay": "12 h"}');
		SELECT queen.enqueue_batch('work', '["held", "over", "rejected", "dead"]', 'high'); CREATE TABLE deliveries AS SELECT * FROM queen.dequeue('work', 4, '6 h');
		SELECT queen.change_visibility(message_id, receipt, '0') FROM deliveries WHERE message IN ('"over"', '"dead"');
		UPDATE deliveries d SET receipt = n.receipt FROM queen.dequeue('work', 1, '1 h') n WHERE n.message_id = d.message_id;
		SELECT queen.reject(message_id, receipt, 'é') FROM deliveries WHERE message IN ('"rejected"', '"over"');
		SELECT queen.enqueue('work', '"low"', 'low', headers => '{"é": 1}'), queen.enqueue('work', '"first"'), queen.enqueue('work', '"second"');
		SELECT queen.enqueue('work', '"later"', 'low', '3 h', deliver_at => '2200-01-01')});
	my $held = $sql->(q{SELECT message_id || ' ' || receipt FROM deliveries WHERE message = '"held"'});
	return { held => $held, lease => $lease, over => $over, original => $original };
}

# Load, and dumps of one snapshot in the middle of it (name => options of pg_dump) in the server's backup directory. What the
# snapshot saw goes to $seen.
sub dump_at_work
{
	my ($node, $seen, %formats) = @_;
	my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

	# what each transaction does to the queue, it also says in tables that are dumped with it
	$sql->(q{
		CREATE TABLE sent (part text, client int, n int);
		CREATE TABLE taken (lease uuid, part text, off bigint, client int, n int);
		CREATE TABLE got (grp text, part text, off bigint, client int, n int);
		SELECT queen.push('busy', '{"client": -1, "n": 1}', 'p' || p) FROM generate_series(1, 4) p;
		INSERT INTO sent SELECT 'p' || p, -1, 1 FROM generate_series(1, 4) p;
		SELECT queen.subscribe('busy', g) FROM (VALUES ('auto'), ('leased')) v (g);
		INSERT INTO taken SELECT lease, partition, msg_offset, (message ->> 'client')::int, (message ->> 'n')::int
			FROM queen.pop('busy', 'leased', 1, partition => 'p4', lease_time => '12 h');
	});
	my $push = <<'SQL';
\set n :n + 1
\set p random(1, 4)
\set lost random(1, 6)
BEGIN;
INSERT INTO sent SELECT 'p' || :p, :client_id, :n FROM queen.push('busy', jsonb_build_object('client', :client_id, 'n', :n), 'p' || :p);
\if :lost = 1
ROLLBACK;
\else
COMMIT;
\endif
SQL
	my $auto = q{INSERT INTO got SELECT 'auto', partition, msg_offset, (message ->> 'client')::int, (message ->> 'n')::int FROM queen.pop('busy', 'auto', 3, auto_ack => true);};
	my $leases = <<'SQL';
WITH m AS MATERIALIZED (SELECT * FROM queen.pop('busy', 'leased', 3, lease_time => '12 h')),
	i AS (INSERT INTO taken SELECT lease, partition, msg_offset, (message ->> 'client')::int, (message ->> 'n')::int FROM m)
SELECT coalesce((SELECT lease::text FROM m LIMIT 1), '') AS lease \gset
\sleep 5 ms
BEGIN;
SELECT queen.ack(l) FROM (SELECT nullif(':lease', '')::uuid AS l) l WHERE l IS NOT NULL;
WITH t AS (DELETE FROM taken WHERE lease = nullif(':lease', '')::uuid RETURNING *) INSERT INTO got SELECT 'leased', part, off, client, n FROM t;
COMMIT;
SQL
	$push =~ s/\\if :lost = 1/\\set rolls_back :lost = 1\n\\if :rolls_back/;
	my @loads = (load($node, '-c 3 -R 150 -T 12 -D n=0', push => $push), load($node, '-c 1 -R 30 -T 12', auto => $auto), load($node, '-c 2 -R 40 -T 12', leases => $leases));
	wait_for_sql($node, q{SELECT count(*) > 300 FROM sent}, 'the load to be on its way');

	$seen->{tables} = $sql->(q{SELECT string_agg(c.oid::regclass::text, ' ' ORDER BY c.oid::regclass::text COLLATE "C") FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind = 'r' AND nspname IN ('queen', 'public')
			-- counts are made anew: queen.verify compares them with the messages
			AND relname NOT IN ('queue_priority_shards', 'queue_priority_state_shard')});
	my $sequences = $sql->(q{SELECT string_agg(oid::regclass::text, ' ' ORDER BY relname COLLATE "C") FROM pg_class WHERE relkind = 'S' AND relnamespace = 'queen'::regnamespace});
	$seen->{contents} = join(' UNION ALL ', map { qq{SELECT '$_', count(*), md5(string_agg(t::text, ' ' ORDER BY t::text COLLATE "C")) FROM $_ t} } split / /, $seen->{tables});
	$seen->{positions} = join(' UNION ALL ', map { "SELECT '$_', last_value FROM $_" } split / /, $sequences);
	$seen->{views} = join('', map { "$_;\n" }
		map({ ("$_ SELECT queue, kind, partitions, options, created_at FROM queen.list_queues()", "$_ SELECT * FROM queen.list_groups('all')") } $second, $first),
		map({ "SELECT * FROM queen.list_groups('$_')" } 'groups', 'purged'), "SELECT priority, ready, in_flight, exhausted FROM queen.count_messages('work')",
		map({ "SELECT * FROM queen.lag('groups', '$_')" } 'early', 'late', 'timed', 'paused', 'leases', 'over', 'nacks'),
		map({ "SELECT partition, msg_offset, message_id, md5(message::text), md5(payload), headers, enqueued_at FROM queen.peek($_, max_messages => 100)" }
			"$odd, $odd", "'all', 'keys'", "'all'", "'groups'", "'aged', 'begins late'", "'purged'"),
		q{SELECT * FROM queen.peek_timer('later', 'k')}, q{SELECT * FROM queen.list_crons('later')},
		"SELECT tenant, queue, partition, consumer_group, msg_offset, reason, attempts, blocked_until, error FROM queen.pg_stat_queen_blocked WHERE reason = 'retry delay'");

	my $snapshot = background($node);
	$snapshot->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL statement_timeout = 0');
	chomp(my $id = $snapshot->query('SELECT pg_export_snapshot()'));
	foreach my $format (sort keys %formats)
	{
		$node->command_ok([ 'pg_dump', "--snapshot=$id", '-h', $node->host, '-p', $node->port, @{ $formats{$format} }, '-f', $node->backup_dir . "/$format", 'postgres' ],
			"pg_dump while it works: $format");
	}
	chomp($seen->{dumped} = $snapshot->query($seen->{contents}));
	chomp($seen->{at_most} = $snapshot->query($seen->{positions}));
	$seen->{catalog} = catalog_of($node, 'postgres');
	$seen->{shown} = $sql->($seen->{views});
	$snapshot->query('COMMIT');
	$snapshot->quit;
	finish_load($_, 'load') foreach @loads;
	is(join(' ', grep { /\|0\|/ } split /\n/, $seen->{dumped}), '', 'no table is empty');
	isnt($sql->($seen->{contents}), $seen->{dumped}, 'and the load has gone on since');
	# a transaction that runs, in whatever database, is in every snapshot, and holds up what is cleaned up behind them
	$sql->("ROLLBACK PREPARED 'later'");
}

# A dump as a directory: what pg_dump has written, and files "seen.NAME".
sub keep_dump
{
	my ($node, $seen, $dir, @formats) = @_;

	mkdir $dir or die "$dir: $!";
	copy($node->backup_dir . "/$_", "$dir/$_") or die "$dir/$_: $!" foreach @formats;
	append_to_file("$dir/seen.$_", $seen->{$_}) foreach sort keys %$seen;
}

# What keep_dump was given to go with the dump.
sub kept_dump
{
	my ($dir) = @_;
	my %seen = map { /seen\.(\w+)$/ => slurp_file($_) } glob("$dir/seen.*");

	return \%seen;
}

# A copy: the same in every table, and all goes on from there. The session, if there is one, is from before the copy was made.
sub check_copy
{
	my ($node, $database, $seen, $session) = @_;
	my $there = sub { return $node->safe_psql($database, $_[0]) };
	my $pop = sub {
		my ($queue, $group, $options) = @_;
		return $there->("SELECT string_agg(message::text, ' ' ORDER BY msg_offset) FROM queen.pop('$queue', '$group', 100, " . ($options // '') . 'auto_ack => true)');
	};

	is($there->($seen->{contents}), $seen->{dumped}, "$database: every table holds what the snapshot saw");
	my %last = map { split /\|/ } split /\n/, $there->($seen->{positions});
	is(join(' ', grep { my ($name, $value) = split /\|/; $last{$name} < $value } split /\n/, $seen->{at_most}), '', "$database: no sequence is behind");
	is($there->($seen->{views}), $seen->{shown}, "$database: queues, groups, lag, messages and what is blocked are shown the same");
	is($there->('SELECT * FROM queen.verify()'), '', "$database: queen.verify finds nothing");
	check_partitions($node, $database);
	check_cursors($node, $database);

	# a push, by a session that may know what was there before
	my $more = q{INSERT INTO sent SELECT 'p' || p, -2, 1 FROM generate_series(1, 4) p, queen.push('busy', '{"client": -2, "n": 1}', 'p' || p)};
	defined $session ? $session->query($more) : $there->($more);

	# leases
	is($pop->('groups', 'leases'), '', "$database: a lease runs on");
	is($there->("SELECT queen.ack('$seen->{lease}', 0)"), '1', "$database: its token acknowledges");
	is($there->("SELECT queen.extend('$seen->{lease}', '12 h') > now() + interval '11 h 50 min'"), 't', "$database: and extends");
	is($there->("SELECT queen.ack('$seen->{lease}'), queen.ack('$seen->{lease}')"), '2|0', "$database: all of it, once");
	is($pop->('groups', 'leases'), '3 4', "$database: what is behind comes next");
	is($pop->('groups', 'over'), '0', "$database: a lease that is over: its head comes alone");
	my (undef, undef, $err) = $node->psql($database, "\\set VERBOSITY sqlstate\nSELECT queen.ack('$seen->{over}')");
	like($err, qr/QN001/, "$database: and its token is lost");
	is($pop->('groups', 'nacks'), '', "$database: a head that waits for its delay goes on waiting");

	# a work queue
	my ($id, $receipt) = split / /, $seen->{held};
	is($there->("SELECT queen.change_visibility('$id', '$receipt', '1 h') > now() + interval '50 min', queen.acknowledge('$id', '$receipt'), queen.acknowledge('$id', '$receipt')"), 't|t|f',
		"$database: a receipt is good, once");
	$there->(q{SELECT queen.enqueue('work', '"third"')});
	is($there->(q{SELECT string_agg(format('%s %s %s', message, priority, attempt), ', ') FROM queen.dequeue('work', 10) WITH ORDINALITY}),
		'"dead" high 2', "$database: what was over comes first, alone, for the last time");
	is($there->(q{SELECT string_agg(format('%s %s %s', message, priority, attempt), ', ' ORDER BY ordinality) FROM queen.dequeue('work', 10) WITH ORDINALITY}),
		'"first" medium 1, "second" medium 1, "third" medium 1, "low" low 1', "$database: then what was never delivered, in its order, and what is new behind it");
	is($there->(q{SELECT string_agg(format('%s %s %s %s', message, priority, attempts, error), ', ') FROM queen.list_dead('work')}), '"over" high 2 é', "$database: what was given up is among the dead letters");
	is($there->(q{SELECT last_error, visible_at > now() + interval '11 h' FROM queen.messages WHERE message = '"rejected"'}), 'é|t', "$database: what was rejected waits");
	is($there->(q{SELECT priority, ttl FROM queen.log_timers WHERE message = '"later"'}), '1|10800000000', "$database: a timer knows where it goes");

	# groups
	is($pop->('groups', 'early'), '1 2 3 4', "$database: behind a dead letter");
	is($pop->('groups', 'late') . $pop->('groups', 'timed'), '', "$database: nothing old for who wanted the newest");
	is($pop->('groups', 'paused'), '', "$database: nothing for who is paused");
	$there->(q{SELECT queen.resume('groups', 'paused')});
	is($pop->('groups', 'paused'), '0 1 2 3 4', "$database: all for who is resumed");
	$there->(q{SELECT queen.push('groups', '5')});
	is($pop->('groups', 'late') . $pop->('groups', 'timed'), '55', "$database: a new one for all");
	is($there->(q{SELECT string_agg(msg_offset::text, ' ') FROM queen.peek('groups')}), '0 1 2 3 4 5', "$database: behind the old offsets");
	is($there->(q{SELECT queen.redrive('groups', 'early')}) . $pop->('groups', 'early'), '15 0', "$database: a dead letter is pushed again, behind them too");

	# what is due later, as if it were by now; the pulse may be as fast
	$there->(q{UPDATE queen.log_timers SET deliver_at = now() WHERE queue = 'later'; UPDATE queen.log_timer_rules SET next_at = now() WHERE queue = 'later'});
	$there->('SELECT queen.fire_timers()');
	$node->poll_query_until($database, q{SELECT queen.count_timers('later') = 0 AND last_at IS NOT NULL FROM queen.list_crons('later')}) or die 'timers do not fire';
	is($there->(q{SELECT string_agg(message::text, ' ' ORDER BY message::text) FROM queen.peek('later')}), '"rule" "timer"', "$database: a timer and a rule are pushed");
	is($there->(q{SELECT next_at > now() FROM queen.list_crons('later')}), 't', "$database: and the rule goes on");

	# keys, holes, beginnings
	is($there->(q{SELECT queen.push('all', '"again"', 'keys', dedup_key => 'k')}), $seen->{original}, "$database: a dedup_key keeps others away");
	$there->(q{SELECT queen.push('all', '5', 'holes'); SELECT queen.push('aged', '2', 'begins late'); SELECT queen.push('purged', '0')});
	is($pop->('all', 'g', "partition => 'holes', "), '0 2 4 5', "$database: a push that was prepared is a hole as any");
	is($there->(q{SELECT string_agg(msg_offset || ':' || message, ' ' ORDER BY msg_offset) FROM queen.pop('aged', max_messages => 10, partition => 'begins late')}), '1:1 2:2',
		"$database: a log goes on behind what retention has deleted");
	is($there->("$second SELECT string_agg(message::text, ' ') FROM queen.pop('all', 'g', 10)"), '"of the second"', "$database: a tenant has its own");

	# clean-up, in the copy's own transactions; a partition waits an hour
	$there->(q{UPDATE queen.log_dropped SET dropped_at = dropped_at - interval '2 hours'});
	my $left = '';
	for (1 .. 100) # an ANALYZE of autovacuum's holds a snapshot, too
	{
		last if $left eq '0';
		sleep 0.2 if $left ne '';
		$there->('CALL queen.maintain()');
		$left = $there->('SELECT (SELECT count(*) FROM queen.log_dropped) + (SELECT count(*) FROM queen.log_retired_groups) + (SELECT count(*) FROM queen.log_starts WHERE log_start = 9223372036854775807)');
	}
	is($left, '0', "$database: what was gone is cleaned up");
	is($there->(q{SELECT count(*) FROM queen.log_cursors c WHERE NOT EXISTS (SELECT FROM queen.log_groups g WHERE g.group_id = c.group_id)}), '0', "$database: with its cursors");
	is($pop->('purged', 'default'), '0', "$database: a purged queue is new");

	# what was under load
	is($there->('SELECT sum(queen.ack(lease)) FROM (SELECT DISTINCT lease FROM taken) t'), $there->('SELECT count(*) FROM taken'), "$database: leases of the load are acknowledged");
	$there->(q{INSERT INTO got SELECT 'leased', part, off, client, n FROM taken; DELETE FROM taken});
	foreach my $group ('auto', 'leased')
	{
		$there->("INSERT INTO got SELECT '$group', partition, msg_offset, (message ->> 'client')::int, (message ->> 'n')::int FROM queen.pop('busy', '$group', 100000, max_partitions => 10, auto_ack => true)");
	}
	is($there->(q{SELECT count(*) FROM (SELECT g AS grp, part, client, n, true AS sent FROM sent, (VALUES ('auto'), ('leased')) v (g)) s
		FULL JOIN got USING (grp, part, client, n) WHERE sent IS NULL OR off IS NULL}), '0', "$database: each group has had each message, and no other");
	is($there->('SELECT count(*) - count(DISTINCT (grp, part, client, n)) FROM got'), '0', "$database: once");
	is($there->('SELECT count(*) FROM (SELECT n <= lag(n) OVER (PARTITION BY grp, part, client ORDER BY off) AS bad FROM got) g WHERE bad'), '0', "$database: in order");
	is($there->(q{SELECT count(*) FROM (SELECT part, off FROM got WHERE client = -2) g JOIN queen.log_partitions p ON p.name = g.part
		JOIN queen.log_segments s ON s.partition_id = p.partition_id AND g.off < s.base_offset JOIN queen.queues q ON q.log_id = p.log_id AND q.name = 'busy'}), '0', "$database: and what was pushed to the copy comes last");
	is($there->('SELECT * FROM queen.verify()'), '', "$database: queen.verify finds nothing in the end");
	check_partitions($node, $database);
	check_cursors($node, $database);
}

1;
