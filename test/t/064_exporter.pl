# monitoring/queen_exporter.yaml in Debian's prometheus-postgres-exporter: each metric comes, under a name that Prometheus' conventions ask for, with
# its type, its labels and no others, and the value that is so. The exporter is a process of this test's own.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HTTP::Tiny;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

# tools/check.sh says where it is, unless this is no Debian (tools/need.sh)
my $program = $ENV{QUEEN_EXPORTER} // '';
plan skip_all => 'there is no prometheus-postgres-exporter' unless -x $program;

my $node = new_node('exporter', settings => "queen.collect_interval = 0\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my ($share) = run_command([ 'pg_config', '--sharedir' ]);
my $file = "$share/extension/queen_exporter.yaml";
ok(-r $file, 'make install has brought the query file');

# ---- what there is to see ----

my $tenant = '00000000-0000-0000-0000-00000000e0e0';
$sql->(q{CREATE ROLE watcher LOGIN IN ROLE pg_monitor; ALTER ROLE watcher SET statement_timeout = '10 s'});
$sql->(<<'SQL');
SELECT queen.create_queue('orders', 'work', '{"retry_delay": "1 h", "max_delivery_attempts": 2}');
SELECT queen.enqueue_batch('orders', '[{"secret": "payload"}, 2, 3, 4, 5]', 'high');
SELECT queen.enqueue('orders', '6', 'low');
SELECT queen.enqueue('orders', '7', 'low', '1 s');
SELECT count(queen.acknowledge(message_id, receipt)) FROM queen.dequeue('orders', 2);
SELECT count(queen.reject(message_id, receipt, 'secret error')) FROM queen.dequeue('orders', 1);
SELECT count(*) FROM queen.dequeue('orders', 1, '1 h');
SELECT queen.create_queue('clicks', 'log', '{"retry_delay": 0, "max_deliveries": 2}');
SELECT queen.push_batch('clicks', '[1, 2, 3, 4, 5, 6, 7]');
SELECT queen.push('clicks', '8', partition => 'other');
SELECT queen.subscribe('clicks', 'idle "group"');
SELECT queen.ack((array_agg(lease))[1]) FROM queen.pop('clicks', 'busy', 3, partition => 'Default');
SELECT queen.nack((array_agg(lease))[1]) FROM queen.pop('clicks', 'busy', 1, partition => 'Default');
SELECT queen.nack((array_agg(lease))[1], dead => true) FROM queen.pop('clicks', 'busy', 1, partition => 'Default');
SELECT count(*) FROM queen.pop('clicks', 'busy', 2, partition => 'Default', lease_time => '1 h');
SELECT queen.schedule('clicks', 'later', '9', delay => '1 h');
SELECT queen.schedule('orders', 'now', '10', delay => '0', priority => 'medium');
SELECT queen.fire_timers();
SELECT queen.pause('clicks', 'idle "group"');
SQL
$sql->("SET queen.tenant = '$tenant'; SELECT queen.push('clicks', '1')");
sleep 1.1;
$sql->('SELECT queen.collect()');

# ---- the exporter ----

my ($port, $out, $exporter);

# newer ones ask for the sizes of all tables themselves, and wait for whoever has locked one: docs/monitoring.md
my ($help, $also) = run_command([ $program, '--help' ]);
my @no_sizes = "$help$also" =~ /collector\.stat_user_tables/ ? '--no-collector.stat_user_tables' : ();

sub start_exporter
{
	my ($database) = @_;
	# only itself is to know these
	local $ENV{DATA_SOURCE_NAME} = 'host=' . $node->host . ' port=' . $node->port . " user=watcher dbname=$database sslmode=disable";
	local $ENV{PGHOST};
	delete local $ENV{PGPORT};
	$port = PostgreSQL::Test::Cluster::get_free_port();
	$out = '';
	$exporter = IPC::Run::start(
		[ $program, "--extend.query-path=$file", "--web.listen-address=127.0.0.1:$port", '--disable-default-metrics', '--disable-settings-metrics', @no_sizes ],
		'<', \undef, '>', \$out, '2>', \$out);
}
END { $exporter->kill_kill if defined $exporter; }
start_exporter('postgres');

# The text of a scrape; families: name to type and help; series: name to labels (sorted, none that is empty or says which server) to value.
sub scrape
{
	my (%type, %help, %series, $answer);
	for (1 .. 100)
	{
		$answer = HTTP::Tiny->new(timeout => 20)->get("http://127.0.0.1:$port/metrics");
		last if $answer->{success};
		$exporter->pump_nb;
		sleep 0.1;
	}
	$exporter->pump_nb;
	$answer->{success} or die "no scrape: $answer->{content}\n$out";
	foreach my $line (split /\n/, $answer->{content})
	{
		if ($line =~ /^# (TYPE|HELP) (\w+) (.*)/) { ($1 eq 'TYPE' ? \%type : \%help)->{$2} = $3; next; }
		my ($name, $labels, $value) = $line =~ /^(\w+)(?:\{(.*)\})? (\S+)$/ or die "not a sample: $line";
		my @labels;
		push @labels, "$1=$2" while ($labels // '') =~ /(\w+)="((?:[^"\\]|\\.)*)"/g;
		my $key = join(' ', sort grep { !/^server=|=$/ } @labels);
		ok(!exists $series{$name}{$key}, "one sample of $name $key") if $name =~ /^queen_/ && exists $series{$name}{$key};
		$series{$name}{$key} = $value;
	}
	return { text => $answer->{content}, type => \%type, help => \%help, series => \%series };
}

my $s = scrape();
is($s->{series}{pg_exporter_last_scrape_error}{''}, '0', 'the exporter met no error') or diag($out);
is(join(' ', values %{ $s->{series}{pg_up} }), '1', 'and has reached the server');
unlike($out, qr/level=error/, 'it complains of nothing') or diag($out);
my ($loaded) = grep { /queen_exporter/ } keys %{ $s->{series}{pg_exporter_user_queries_load_error} // {} };
is($s->{series}{pg_exporter_user_queries_load_error}{ $loaded // '' }, '0', 'the query file was loaded');

# ---- names, types, labels: what the file says is what comes, and keeps to the conventions ----

my (%usage, %labels, %block_of, $block);
foreach my $line (split /\n/, slurp_file($file))
{
	$block = $1 if $line =~ /^(\w+):$/;
	next unless $line =~ /^    - (\w+): \{ usage: "(\w+)", description: "(.+)" \}$/;
	if ($2 eq 'LABEL') { $labels{$block}{$1} = 1; }
	else { $usage{"${block}_$1"} = lc $2; $block_of{"${block}_$1"} = $block; }
}
cmp_ok(scalar keys %usage, '>=', 50, 'the file has metrics');
my %bound = map { $_ => 1 } qw(datname tenant queue priority consumer_group worker task relname holder);
is(join(' ', sort grep { !$bound{$_} } map { keys %$_ } values %labels), '', 'no label but those whose values are bounded');
is(join(' ', sort grep { !$usage{$_} } grep { /^queen_/ } keys %{ $s->{series} }), '', 'nothing comes that the file does not name');
is(join(' ', sort grep { !$s->{series}{$_} } keys %usage), '', 'all comes that it names');
is(join(' ', sort grep { ($s->{type}{$_} // '') ne $usage{$_} } keys %usage), '', 'with its type');
is(join(' ', sort grep { ($s->{help}{$_} // '') eq '' } keys %usage), '', 'with help');
is(join(' ', sort grep { !/^queen(?:_[a-z]+)+$/ || ($usage{$_} eq 'counter') != /_total$/ } keys %usage), '', 'counters, and only they, end in _total');
is(join(' ', sort grep { /(?:_ms|milliseconds|_kb|_mb|_age|_time)(?:_total)?$/ } keys %usage), '', 'units are seconds and bytes, and are named');
is(join("\n", grep { /NaN/ } grep { /^queen_/ } split /\n/, $s->{text}), '', 'nothing is not a number');
my @bad;
foreach my $name (sort keys %usage)
{
	foreach my $labels (keys %{ $s->{series}{$name} })
	{
		push @bad, "$name $labels" if $labels !~ /datname=postgres\b/ || grep { !$labels{ $block_of{$name} }{$_} } $labels =~ /(?:^| )(\w+)=/g;
	}
}
is(join("\n", @bad), '', 'each has labels of the file only, and says which database');
unlike($s->{text}, qr/secret|payload/, 'nothing of a message or its errors is shown');

# ---- values ----

my %want = (
	'queue queue=orders priority=high' => { ready_messages => 1, in_flight_messages => 2, stored_messages => 3, messages_added_total => 5, deliveries_total => 4, redeliveries_total => 0,
		messages_completed_total => 2, rejections_total => 1, messages_dead_lettered_total => 0, expirations_total => 0, expired_messages => 0, exhausted_messages => 0, dead_letters => 0, timers => 0 },
	'queue queue=orders priority=medium' => { ready_messages => 1, in_flight_messages => 0, messages_added_total => 1, deliveries_total => 0, oldest_in_flight_age_seconds => 0 },
	'queue queue=orders priority=low' => { ready_messages => 1, expired_messages => 1, stored_messages => 2, messages_added_total => 2 },
	'queue queue=clicks' => { paused => 0, messages_added_total => 8, deliveries_total => 7, redeliveries_total => 1, messages_completed_total => 3, rejections_total => 2,
		messages_dead_lettered_total => 1, dead_letters => 1, timers => 1, in_flight_messages => 2, stored_messages => 8 },
	"queue queue=clicks tenant=$tenant" => { messages_added_total => 1, deliveries_total => 0, ready_messages => 1 },
	'group consumer_group=busy queue=clicks' => { deliveries_total => 7, redeliveries_total => 1, messages_completed_total => 3, rejections_total => 2, messages_dead_lettered_total => 1,
		in_flight_messages => 2, ready_messages => 2, blocked_messages => 0, paused => 0 },
	'group consumer_group=idle \"group\" queue=clicks' => { paused => 1, deliveries_total => 0, ready_messages => 8, in_flight_messages => 0, oldest_in_flight_age_seconds => 0 },
	'collector' => { failures_total => 0, queues => 3, left_out_queues => 0, left_out_groups => 0 },
	'worker worker=keeper' => { running => 1, failures_in_a_row => 0 },
	'worker worker=pulse' => { running => 1 },
	'timer queue=orders' => { fired_total => 1, dead_lettered_total => 0 },
	'counts' => { drift_failures_total => 0, evicted_total => 0, lost_total => 0 },
	'hotlist' => { refused_candidates_total => 0 },
);
foreach my $what (sort keys %want)
{
	my ($family, $labels) = $what =~ /^(\w+)(.*)/;
	my $key = join(' ', sort('datname=postgres', grep { $_ ne '' } split / (?=\w+=)/, $labels =~ s/^ //r));
	my %got = map { $_ => $s->{series}{"queen_${family}_$_"}{$key} // 'none' } keys %{ $want{$what} };

	is_deeply(\%got, $want{$what}, "values of $what") or diag(join("\n", grep { /^queen_${family}_/ } split /\n/, $s->{text}));
}
# nobody, or who looks just now, such as another connection of the exporter
like(join('|', keys %{ $s->{series}{queen_horizon_age_transactions} }), qr/^datname=postgres( holder=backend)?$/, 'who holds dead rows is one, or nobody');
cmp_ok($s->{series}{queen_queue_oldest_ready_age_seconds}{'datname=postgres queue=clicks'}, '>', 1, 'ages are in seconds');
cmp_ok($s->{series}{queen_queue_oldest_ready_age_seconds}{'datname=postgres queue=clicks'}, '<', 60, 'and no more than they can be');
is($s->{series}{queen_queue_bytes_added_total}{'datname=postgres queue=clicks'}, $sql->(q{SELECT added_bytes FROM queen.pg_stat_queen_queues WHERE queue = 'clicks' ORDER BY added_bytes DESC LIMIT 1}), 'bytes are those of the view');
is($s->{series}{queen_queue_stored_bytes}{'datname=postgres queue=clicks'}, $sql->(q{SELECT bytes FROM queen.pg_stat_queen_queues WHERE queue = 'clicks' ORDER BY added DESC LIMIT 1}), 'and what a log takes');
is(scalar keys %{ $s->{series}{queen_queue_stored_bytes} }, 2, 'of logs alone');
is(scalar keys %{ $s->{series}{queen_queue_ready_messages} }, 5, 'a series for each log, and for each priority of a work queue');
is(scalar keys %{ $s->{series}{queen_table_bytes} }, $sql->('SELECT count(*) FROM queen.pg_stat_queen_storage'), 'one for each table');
cmp_ok($s->{series}{queen_table_bytes}{'datname=postgres relname=messages'}, '>', 0, 'which has a size');
cmp_ok($s->{series}{queen_collector_snapshot_age_seconds}{'datname=postgres'}, '<', 60, 'the snapshot has an age');
cmp_ok($s->{series}{queen_task_runs_total}{'datname=postgres task=upkeep worker=keeper'}, '>=', 0, 'tasks are counted');

# ---- later: counts grow at once, the state when it is collected; an open snapshot is named ----

my $before = $s;
my $open = background($node);
$open->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$sql->(q{SELECT queen.push('clicks', '9')});
$sql->(q{SELECT queen.push('clicks', '10')});
$s = scrape();
is($s->{series}{queen_queue_messages_added_total}{'datname=postgres queue=clicks'}, 10, 'a counter is as of now');
is($s->{series}{queen_queue_stored_messages}{'datname=postgres queue=clicks'}, 8, 'the state as of the last collection');
cmp_ok($s->{series}{queen_collector_snapshot_age_seconds}{'datname=postgres'}, '>', $before->{series}{queen_collector_snapshot_age_seconds}{'datname=postgres'}, 'which grows older');
cmp_ok($s->{series}{queen_horizon_age_transactions}{'datname=postgres holder=backend'} // 0, '>=', 2, 'who holds a snapshot is told');
$open->quit;
$sql->('SELECT queen.collect()');
$s = scrape();
is($s->{series}{queen_queue_stored_messages}{'datname=postgres queue=clicks'}, 10, 'and then as of a new one');

# ---- paused, and tables that somebody has locked: nothing waits for him ----

$sql->(q{SELECT queen.pause('orders')});
$sql->('SELECT queen.collect()');
my $locker = background($node);
my $tables = $sql->(q{SELECT string_agg('queen.' || table_name, ', ') FROM queen.pg_stat_queen_storage});
$locker->query_safe("BEGIN; LOCK TABLE $tables IN ACCESS EXCLUSIVE MODE");
my $began = time;
$s = scrape();
cmp_ok(time - $began, '<', 5, 'a scrape does not wait for a lock');
is($s->{series}{pg_exporter_last_scrape_error}{''}, '0', 'and meets no error') or diag($out);
is($s->{series}{queen_queue_paused}{'datname=postgres priority=high queue=orders'}, 1, 'what is shown beside is there: a queue that is paused');
is($s->{series}{queen_queue_ready_messages}{'datname=postgres priority=high queue=orders'}, 1, 'with what waits in it');
is(scalar keys %{ $s->{series}{queen_table_bytes} // {} }, 0, 'but no sizes');
cmp_ok(scalar keys %{ $s->{series}{queen_horizon_age_transactions} }, '==', 1, 'and who holds dead rows');
my $sizes = q{SELECT heap_bytes IS NULL, dead_bytes IS NULL, toast_bytes IS NULL, index_bytes IS NULL, total_bytes IS NULL, live_rows IS NULL FROM queen.pg_stat_queen_storage WHERE table_name = 'messages'};
is($sql->("SET statement_timeout = '5 s'; $sizes"), 't|t|t|t|t|f', 'what is locked has no sizes');
# who waits in line for the table is as good as who has it
$locker->query_safe('ROLLBACK; BEGIN; LOCK TABLE queen.messages IN ROW EXCLUSIVE MODE');
my $waiter = background($node);
$waiter->query_until(qr/waits/, "\\echo waits\nBEGIN; LOCK TABLE queen.messages IN ACCESS EXCLUSIVE MODE;\n");
wait_for_sql($node, q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'queen.messages'::regclass AND NOT granted}, 'somebody waits for the table');
is($sql->("SET statement_timeout = '5 s'; $sizes"), 't|t|t|t|t|f', 'nor has what somebody waits for');
$locker->query_safe('ROLLBACK');
$waiter->quit;
$locker->query_safe('BEGIN; REINDEX INDEX queen.messages_pkey');
is($sql->("SET statement_timeout = '5 s'; $sizes"), 'f|f|f|t|t|f', 'of an index that is locked the size is not known');
$locker->query_safe('ROLLBACK');
is($sql->($sizes), 'f|f|f|f|f|f', 'and then all is');
is($sql->(q{CREATE TABLE foreign_to_queen (a text); SELECT s IS NULL FROM queen.stat_storage('foreign_to_queen'::regclass) s}), 't', 'of other tables nothing');
$s = scrape();
is(scalar keys %{ $s->{series}{queen_table_bytes} }, $sql->('SELECT count(*) FROM queen.pg_stat_queen_storage'), 'a scrape has them again');
$locker->quit;

# ---- the server starts anew: counters begin at nothing, the exporter goes on ----

$node->restart;
$sql->('SELECT queen.collect()');
for (1 .. 50)
{
	$s = scrape();
	last if ($s->{series}{queen_queue_messages_added_total}{'datname=postgres queue=clicks'} // '') eq '0';
	sleep 0.2;
}
is($s->{series}{queen_queue_messages_added_total}{'datname=postgres queue=clicks'}, 0, 'a restart is a reset of counters');
is($s->{series}{queen_queue_stored_messages}{'datname=postgres queue=clicks'}, 10, 'and not of the state');

$exporter->kill_kill;
undef $exporter;

# ---- a database that does not know in what its names are ----

$sql->("CREATE DATABASE bytes ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
$node->safe_psql('bytes', q{CREATE EXTENSION queen});
$node->safe_psql('bytes', <<'SQL');
SELECT queen.push(E'no \xfc', '1');
SELECT queen.push(E'no \\fc', '1');
SELECT queen.push('plain', '1');
SELECT queen.subscribe(E'no \xfc', E'\xff');
SELECT queen.schedule(E'no \xfc', E'\xff', '1', delay => '0');
SELECT queen.fire_timers();
SELECT queen.collect();
SQL
start_exporter('bytes');
$s = scrape();
is($s->{series}{pg_exporter_last_scrape_error}{''}, '0', 'names that are not UTF-8 are no error') or diag($out);
is(join(', ', map { /queue=(.*)/ } sort keys %{ $s->{series}{queen_queue_stored_messages} }), 'no \\\\374, no \\\\\\\\fc, plain', 'nor do they take others along');
is(scalar keys %{ $s->{series}{queen_queue_stored_bytes} }, 3, 'nor elsewhere');
is(join(', ', keys %{ $s->{series}{queen_group_ready_messages} }), 'consumer_group=\\\\377 datname=bytes queue=no \\\\374', 'of groups as well');
is(join(', ', keys %{ $s->{series}{queen_timer_fired_total} }), 'datname=bytes queue=no \\\\374', 'and of timers');
$exporter->kill_kill;
undef $exporter;
check_log($node);
done_testing();
