# Updates: whatever version an installation began with, ALTER EXTENSION queen UPDATE ends in what a fresh install of the
# newest makes, with what the queues held; and a library that meets another version's tables says so.
#
# The released versions come from sql/released (install scripts as they were) and sql/upgrade; tools/tree.sh puts them
# where the server finds them. Beside them an older version is made here from today's script: the test of the test.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Catalog;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('upgrade', no_extension => 1);
my ($bindir) = run_command([ 'pg_config', '--bindir' ]);
my ($sharedir) = run_command([ "$bindir/pg_config", '--sharedir' ]);
my $scripts = "$sharedir/extension";
my $newest = $node->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'queen'});
my ($older, $forgetful) = ('0.0.1', '0.0.2'); # that no release bears

$node->safe_psql('postgres', 'CREATE ROLE somebody');
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION queen');
my $fresh = catalog_of($node, 'fresh');

is($node->safe_psql('fresh', q{SELECT state FROM queen.status() WHERE item = 'version'}), $newest, 'library and control file are of one version');

# ---- the comparison sees whatever an update script can forget ----

my %differences = (
	'a function' => 'ALTER EXTENSION queen DROP FUNCTION queen.release(uuid); DROP FUNCTION queen.release',
	'a member' => 'ALTER EXTENSION queen DROP FUNCTION queen.release(uuid)',
	'a comment on a function' => q{COMMENT ON FUNCTION queen.status() IS 'other'},
	'a function for PUBLIC' => 'GRANT EXECUTE ON FUNCTION queen.pop TO PUBLIC',
	'a function for a role' => 'REVOKE EXECUTE ON FUNCTION queen.status() FROM pg_monitor',
	'costs and rows of a function' => 'ALTER FUNCTION queen.list_queues() ROWS 7',
	'an owner' => 'ALTER TABLE queen.queues OWNER TO somebody',
	'a column' => 'ALTER TABLE queen.log_starts ADD COLUMN more int',
	'the place of a column' => 'ALTER TABLE queen.log_starts ADD COLUMN more int; ALTER TABLE queen.log_starts DROP COLUMN more',
	'a type of a column' => 'ALTER TABLE queen.dead_letters ALTER COLUMN attempts TYPE bigint',
	'a default' => 'ALTER TABLE queen.queues ALTER COLUMN created_at SET DEFAULT now()',
	'not null' => 'ALTER TABLE queen.queues ALTER COLUMN created_at DROP NOT NULL',
	'a collation' => 'ALTER TABLE queen.dead_letters ALTER COLUMN error TYPE text COLLATE "POSIX"',
	'a storage' => 'ALTER TABLE queen.log_segments ALTER COLUMN blob SET STORAGE EXTENDED',
	'a comment on a column' => q{COMMENT ON COLUMN queen.dead_letters.error IS 'other'},
	'an index' => 'DROP INDEX queen.dead_letters_queue_id_dead_id_idx',
	'an order of an index' => 'DROP INDEX queen.dead_letters_queue_id_dead_id_idx; '
		. 'CREATE INDEX dead_letters_queue_id_dead_id_idx ON queen.dead_letters (queue_id DESC, dead_id)',
	'a constraint' => 'ALTER TABLE queen.queues ADD CONSTRAINT more CHECK (queue_id > 0)',
	'a name of a constraint' => 'ALTER TABLE queen.queues RENAME CONSTRAINT queues_tenant_name_key TO other',
	'a storage parameter' => 'ALTER TABLE queen.log_cursors RESET (fillfactor)',
	'a storage parameter of the toast table' => 'ALTER TABLE queen.log_segments RESET (toast.vacuum_truncate)',
	'persistence' => 'ALTER TABLE queen.log_starts SET UNLOGGED',
	'bounds of a sequence' => 'ALTER SEQUENCE queen.group_ids NO MAXVALUE',
	'a sequence for PUBLIC' => 'GRANT USAGE ON SEQUENCE queen.group_ids TO PUBLIC',
	'a table for PUBLIC' => 'GRANT SELECT ON queen.dead_letters TO PUBLIC',
	'a column for PUBLIC' => 'GRANT SELECT (queue) ON queen.dead_letters TO PUBLIC',
	'the schema for PUBLIC' => 'GRANT USAGE ON SCHEMA queen TO PUBLIC',
	'a view' => 'CREATE OR REPLACE VIEW queen.pg_stat_queen_blocked AS SELECT b.*, NULL::int AS blocking_pid, NULL::text AS blocking_gid FROM queen.stat_blocked() b',
	'a type' => 'ALTER TYPE queen.message ADD ATTRIBUTE more int',
	'a comment on a type' => 'COMMENT ON TYPE queen.message IS NULL',
	'a trigger' => 'CREATE TRIGGER more BEFORE UPDATE ON queen.queues FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
	'what is dumped' => q{UPDATE pg_extension SET extconfig = extconfig[2:], extcondition = extcondition[2:] WHERE extname = 'queen'},
	'what is dumped of a table' => q{UPDATE pg_extension SET extcondition[1] = 'WHERE false' WHERE extname = 'queen'},
	'rights that a dump leaves out' => q{DELETE FROM pg_init_privs WHERE objoid = 'queen.status()'::regprocedure},
	'the version' => q{UPDATE pg_extension SET extversion = '0' WHERE extname = 'queen'},
	'rights on what comes later' => 'ALTER DEFAULT PRIVILEGES IN SCHEMA queen GRANT SELECT ON TABLES TO somebody',
);
foreach my $what (sort keys %differences)
{
	my $other = $node->safe_psql('fresh', "BEGIN; SET LOCAL client_min_messages = warning; $differences{$what}; " . catalog_query() . ' ROLLBACK;');
	isnt(compare_catalogs($fresh, $other), '', "the comparison sees: $what");
}
is(compare_catalogs($fresh, catalog_of($node, 'fresh')), '', 'and nothing where nothing is');

# ---- an update: from a version to the newest, with queues in use ----

# What is used is in every version's interface.
sub check_update
{
	my ($version, $database, $refused) = @_;
	my $what = "from $version";

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, "CREATE EXTENSION queen VERSION '$version'");
	my $session = $node->background_psql($database, on_error_stop => 0);
	if ($refused)
	{
		my ($rc, $out, $err) = $node->psql($database, q{SELECT queen.push('q', '1')});
		like($err, qr/ERROR:  table "queues" does not have the columns that this library knows\nHINT:  Bring library and extension to the same version with ALTER EXTENSION queen UPDATE/,
			"$what: the library refuses tables of another version");
		$session->query(q{SELECT queen.push('q', '1')}); # meets the same, and goes on
	}
	else
	{
		$session->query(q{SELECT count(queen.push('q', to_jsonb(n), 'p')) FROM generate_series(1, 3) n});
		$session->query(q{CREATE TABLE leased AS SELECT lease FROM queen.pop('q', 'g', max_messages => 2)});
	}

	$node->safe_psql($database, 'ALTER EXTENSION queen UPDATE');
	is(compare_catalogs($fresh, catalog_of($node, $database)), '', "$what: an update makes what a fresh install makes");

	$session->query(q{SELECT count(queen.push('q', to_jsonb(n), 'p')) FROM generate_series(4, 5) n});
	$session->quit;
	unless ($refused)
	{
		is($node->safe_psql($database, 'SELECT queen.ack(lease) FROM (SELECT DISTINCT lease FROM leased) l'), '2', "$what: a lease from before goes on");
		is($node->safe_psql($database, q{SELECT string_agg(message::text, ' ') FROM queen.pop('q', 'g', max_messages => 10)}), '3 4 5',
			"$what: and so do the messages");
	}
	else
	{
		is($node->safe_psql($database, q{SELECT string_agg(message::text, ' ') FROM queen.pop('q', 'g', max_messages => 10)}), '4 5',
			"$what: a session that was refused goes on after the update");
	}
	$node->safe_psql($database, 'DROP EXTENSION queen; DROP SCHEMA queen');
	$node->safe_psql('postgres', "DROP DATABASE $database");
}

# Every version that anything leads from can be installed, and leads to the newest.
my @updates = split /\n/, $node->safe_psql('postgres', qq{
	SELECT DISTINCT source FROM pg_extension_update_paths('queen') WHERE target = '$newest' ORDER BY source});
is($node->safe_psql('postgres', q{SELECT string_agg(version, ' ') FROM pg_available_extension_versions WHERE name = 'queen' AND version <> '} . $newest . q{'
		AND NOT EXISTS (SELECT FROM pg_extension_update_paths('queen') WHERE source = version AND target = '} . $newest . q{' AND path IS NOT NULL)}),
	'', "every release has update scripts to $newest");
foreach my $version (@updates)
{
	check_update($version, 'from_' . ($version =~ s/\W/_/gr), 0);
}

# ---- the same with an older version made of today's script: less a function, and less the last column of a table ----

my $script = slurp_file("$scripts/queen--$newest.sql");
my $column = $node->safe_psql('fresh', q{
	SELECT attname FROM pg_attribute WHERE attrelid = 'queen.queues'::regclass AND attnum > 0 ORDER BY attnum DESC LIMIT 1});
my ($function) = $script =~ /^(CREATE FUNCTION queen\.release\(.*?;\n)/ms or die 'no function release';
my ($comment) = $script =~ /^(COMMENT ON FUNCTION queen\.release\(.*?;\n)/ms or die 'no comment on function release';
my $rights = "REVOKE ALL ON FUNCTION queen.release FROM PUBLIC;\n";
my $old = $script;

$old =~ s/\Q$function\E// and $old =~ s/\Q$comment\E// and $old =~ s/(CREATE TABLE queen\.queues \(.*?)^\t($column\s[^\n]*?),[ \t]*(--[^\n]*)?\n/$1/ms
	or die 'no older version can be made';
my $definition = $2; # without rows the column may be not null
my %made = (
	"queen--$older.sql" => $old,
	"queen--$older--$newest.sql" => "ALTER TABLE queen.queues ADD COLUMN $definition;\n$function$comment$rights",
	"queen--$forgetful.sql" => $old,
	"queen--$forgetful--$newest.sql" => "ALTER TABLE queen.queues ADD COLUMN $definition;\n$function",
);
append_to_file("$scripts/$_", $made{$_}) foreach sort keys %made;

check_update($older, 'older', 1);

# ---- a dump names no version: the copy is of the newest, and its rows have not gone through the update ----

$node->safe_psql('postgres', 'CREATE DATABASE dumped; CREATE DATABASE restored');
$node->safe_psql('dumped', "CREATE EXTENSION queen VERSION '$older'; ALTER TABLE queen.queues DISABLE TRIGGER ALL; "
		. q{INSERT INTO queen.queues (queue_id, log_id, tenant, name, kind, created_at) VALUES (1, 1, gen_random_uuid(), 'q', 'log', now())});
$node->command_ok([ 'pg_dump', '-Fc', '-h', $node->host, '-p', $node->port, '-f', $node->backup_dir . '/older', 'dumped' ], 'a dump of an older version');
my (undef, $refused) = run_command([ 'pg_restore', '-h', $node->host, '-p', $node->port, '-d', 'restored', $node->backup_dir . '/older' ]);
like($refused, qr/null value in column "$column" of relation "queues" violates not-null constraint/, 'its rows are not what the newest wants');
is($node->safe_psql('restored', q{SELECT extversion FROM pg_extension WHERE extname = 'queen'}), $newest, 'the copy is of the newest version');
my (undef, undef, $notice) = $node->psql('restored', 'ALTER EXTENSION queen UPDATE');
like($notice, qr/version "\Q$newest\E" of extension "queen" is already installed/, 'and no update is left for it');

$node->safe_psql('postgres', 'CREATE DATABASE forgetful');
$node->safe_psql('forgetful', "CREATE EXTENSION queen VERSION '$forgetful'; ALTER EXTENSION queen UPDATE");
my $found = compare_catalogs($fresh, catalog_of($node, 'forgetful'));
like($found, qr/^\+ function: queen\.release\(uuid\) .* =X\S* .* comment NULL/m, 'rights and a comment that an update script forgets are found');
is(scalar(split /\n/, $found), 2, 'and nothing else');

unlink map { "$scripts/$_" } keys %made;
check_log($node);
$node->stop;
done_testing;
