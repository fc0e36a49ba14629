# Rights that queen.grant_producer() and its like gave, or a DBA by hand, go through a dump: a restored database has the same,
# nothing more. And whoever restores need not be the one that made the original.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Catalog;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('rights');
my $dir = PostgreSQL::Test::Utils::tempdir;

$node->safe_psql('postgres', q{
	CREATE ROLE app LOGIN;
	CREATE ROLE worker LOGIN;
	CREATE ROLE "Boss ""x""" LOGIN;
	CREATE ROLE was LOGIN;
	CREATE ROLE second SUPERUSER LOGIN;
	SELECT queen.grant_producer('app'), queen.grant_consumer('worker'), queen.grant_admin('Boss "x"'), queen.grant_admin('was'), queen.revoke_admin('was');
	GRANT SELECT, DELETE ON queen.dead_letters TO worker;
	GRANT EXECUTE ON FUNCTION queen.stat_blocked() TO "Boss ""x""" WITH GRANT OPTION;
	REVOKE EXECUTE ON FUNCTION queen.status() FROM pg_monitor;
	SELECT queen.push('q', '"dumped"')});
my $original = catalog_of($node, 'postgres');
# a check that the comparison sees what a grant changes: a restored database without the grants is another one
$node->safe_psql('postgres', 'CREATE DATABASE plain');
$node->safe_psql('plain', 'CREATE EXTENSION queen');
isnt(compare_catalogs($original, catalog_of($node, 'plain')), '', 'a new installation has not these rights');

foreach my $format ('plain', 'custom')
{
	my $file = "$dir/$format";
	my ($out, $err) = run_command([ 'pg_dump', '-h', $node->host, '-p', $node->port, "--format=$format", '--file', $file, 'postgres' ]);

	is($err, '', "$format: pg_dump says nothing");
	foreach my $who ($node->safe_psql('postgres', 'SELECT current_user'), 'second')
	{
		my $copy = "copy_${format}_" . ($who eq 'second' ? 'second' : 'same');
		my @to = ('-h', $node->host, '-p', $node->port, '-U', $who, '-d', $copy);
		$node->safe_psql('postgres', "CREATE DATABASE $copy");
		command_ok($format eq 'plain' ? [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', @to, '-f', $file ] : [ 'pg_restore', '--exit-on-error', @to, $file ],
			"$copy: restored");
		my $restored = catalog_of($node, $copy);
		if ($who eq 'second')
		{
			# the new owner has what the old one had
			my $owner = $node->safe_psql('postgres', q{SELECT current_user});
			my ($old) = $original =~ /^function: queen\.push\(.* owner (\S+) acl/m;
			$_ =~ s/\b(?:second|\Q$owner\E)\b/owner/g foreach $restored, (my $expected = $original);
			is(compare_catalogs(sorted($expected), sorted($restored)), '', "$copy: the same rights and all else, of another owner");
		}
		else
		{
			is(compare_catalogs($original, $restored), '', "$copy: the same rights, and all else");
		}

		my $as = sub { my ($role, $query) = @_; return $node->psql($copy, $query, extra_params => [ '-U', $role ]) };
		is(($as->('app', q{SELECT queen.push('q', '"restored"')}))[0], 0, "$copy: the producer pushes");
		like(($as->('app', q{SELECT queen.pop('q')}))[2], qr/permission denied for function pop/, "$copy: and takes nothing");
		is(($as->('worker', q{SELECT message FROM queen.pop('q', max_messages => 10)}))[1], qq{"dumped"\n"restored"}, "$copy: the consumer takes");
		like(($as->('worker', q{SELECT queen.push('q', '1')}))[2], qr/permission denied for function push/, "$copy: and pushes nothing");
		is(($as->('Boss "x"', q{SELECT queen.drop_queue('q')}))[1], 't', "$copy: the admin drops");
		like(($as->('was', q{SELECT queen.push('q', '1')}))[2], qr/permission denied for schema queen/, "$copy: nothing is left of what was revoked");
	}
}

# Rights of an installation that was dropped are not those of the next.
$node->safe_psql('postgres', 'DROP EXTENSION queen; CREATE EXTENSION queen');
is(compare_catalogs(catalog_of($node, 'plain'), catalog_of($node, 'postgres')), '', 'dropped and made again: nobody has anything');

check_log($node);
$node->stop;
done_testing;

# The entries of an acl are sorted by name: another owner's name sorts elsewhere.
sub sorted
{
	my ($catalog) = @_;
	return join("\n", map { my ($acl) = /( acl .*)/ ? $1 : ''; (my $rest = $_) =~ s/ acl .*//; $rest . join(' ', '', sort(split / /, $acl)) } split /\n/, $catalog);
}
