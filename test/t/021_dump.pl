# A dump of a server at work, restored: all that the snapshot of pg_dump saw is there, and all goes on from there, in a fresh
# database, on a fresh server, and over an installation that was used and that its server still remembers. The dump is kept in
# QUEEN_DUMPS/MAJOR, if that is set, for 022_restore under newer versions of PostgreSQL.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Catalog;
use Dump;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $source = dump_node('source', preload => 'queen_test, queen');
my $other = dump_node('other');
my $backups = $source->backup_dir;
mkdir $backups;

my $seen = fill_queues($source);
dump_at_work($source, $seen, custom => [ '-Fc' ], directory => [ '-Fd', '-j2' ], plain => [ '--clean', '--if-exists' ],
	nothing => [ '-Fc', '--exclude-table-data=queen.*' ]);
if ($ENV{QUEEN_DUMPS})
{
	my $major = int($source->safe_psql('postgres', 'SHOW server_version_num') / 10000);
	keep_dump($source, $seen, "$ENV{QUEEN_DUMPS}/$major", 'custom', 'plain');
}

# ---- copies ----

my @source = ('-h', $source->host, '-p', $source->port);
my @other = ('-h', $other->host, '-p', $other->port);

# the same server, by the owner
$source->safe_psql('postgres', 'CREATE DATABASE copy');
$source->command_ok([ 'pg_restore', @source, '-U', 'founder', '-d', 'copy', '--exit-on-error', "$backups/custom" ], 'into a database of the same server');
is(compare_catalogs($seen->{catalog}, catalog_of($source, 'copy')), '', 'the catalogs say the same, rights that were given included');
check_copy($source, 'copy', $seen);

# a server that has never seen it, by another superuser
$other->safe_psql('postgres', 'CREATE DATABASE fresh');
$other->command_ok([ 'pg_restore', @other, '-d', 'fresh', '-j2', '--exit-on-error', "$backups/directory" ], 'into a fresh server, in parallel');
is($other->safe_psql('fresh', q{SELECT string_agg(p.oid::regproc::text, ' ') FROM pg_proc p WHERE pronamespace = 'queen'::regnamespace AND has_function_privilege('app', oid, 'execute')}),
	'queen.lag', 'rights that were given are there, and no other');
check_copy($other, 'fresh', $seen);

# over one that was used: names and partitions with the ids of others, which a session and its server still remember
my %used;
foreach my $database ('cleaned', 'emptied')
{
	$other->safe_psql('postgres', "CREATE DATABASE $database");
	$other->safe_psql($database, 'CREATE EXTENSION queen');
	$used{$database} = $other->background_psql($database, on_error_stop => 0);
	$used{$database}->query(q{SELECT count(queen.push('busy', '0', 'p' || p)) FROM generate_series(1, 40) p}) for 1 .. 2;
	$used{$database}->query(q{SELECT queen.pop('busy', max_partitions => 40)});
}
$other->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', @other, '-d', 'cleaned', '-f', "$backups/plain" ], 'over a used one, with --clean');
check_copy($other, 'cleaned', $seen, $used{cleaned});
$used{cleaned}->quit;
$other->safe_psql('emptied', join('', map { "DELETE FROM $_; " } grep { /^queen\./ } split / /, $seen->{tables}));
$other->command_ok([ 'pg_restore', @other, '-d', 'emptied', '-n', 'public', '--schema-only', "$backups/custom" ], 'the schema of the application');
$other->command_ok([ 'pg_restore', @other, '-d', 'emptied', '--data-only', '--exit-on-error', "$backups/custom" ], 'over an emptied one, with --data-only');
check_copy($other, 'emptied', $seen, $used{emptied});
$_->quit foreach values %used;

# ---- without the messages, and into another encoding ----

$other->safe_psql('postgres', q{CREATE DATABASE nothing; CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'});
$other->command_ok([ 'pg_restore', @other, '-d', 'nothing', '--exit-on-error', "$backups/nothing" ], 'without what is in the tables');
is($other->safe_psql('nothing', q{SELECT queen.push('q', '1') IS NOT NULL; SELECT message FROM queen.pop('q'); SELECT count(*) FROM queen.log_segments}), "t\n1\n1", 'it begins anew');

my (undef, $err) = run_command([ 'pg_restore', @other, '-d', 'latin', "$backups/custom" ]);
like($err, qr/messages in encoding UTF8 cannot be loaded into a database of encoding LATIN1/, 'messages are not loaded as what they are not');
is($other->safe_psql('latin', 'SELECT count(*) FROM queen.log_segments'), '0', 'none of them');

check_log($source, qr/the commit fails/);
check_log($other, qr/cannot be loaded into a database/);
$_->stop foreach $source, $other;
done_testing();
