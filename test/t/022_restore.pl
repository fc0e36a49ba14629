# Dumps of servers of older versions of PostgreSQL at work (021_dump has left them in QUEEN_DUMPS/MAJOR), restored by this
# version's programs: all that their snapshots saw is there, and all goes on from there.
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

my ($version) = run_command([ 'pg_config', '--version' ]);
my ($major) = $version =~ /(\d+)/;
my @older = grep { $_ < $major } map { m{/(\d+)$} } $ENV{QUEEN_DUMPS} ? glob("$ENV{QUEEN_DUMPS}/*") : ();

plan skip_all => 'no dump of an older version of PostgreSQL in QUEEN_DUMPS' unless @older;

my $node = dump_node('newer');
my @to = ('-h', $node->host, '-p', $node->port);

$node->safe_psql('postgres', 'CREATE DATABASE installed');
install_as_dumped($node, 'installed');
my $installed = catalog_of($node, 'installed');

foreach my $from (@older)
{
	my $dir = "$ENV{QUEEN_DUMPS}/$from";
	my $seen = kept_dump($dir);

	$node->safe_psql('postgres', "CREATE DATABASE from_$from; CREATE DATABASE plain_from_$from");
	$node->command_ok([ 'pg_restore', @to, '-U', 'founder', '-d', "from_$from", '-j2', '--exit-on-error', "$dir/custom" ], "a dump of $from, by pg_restore of $major");
	is(compare_catalogs($installed, catalog_of($node, "from_$from")), '', 'its catalogs say what those of an installation do');
	check_copy($node, "from_$from", $seen);
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', @to, '-d', "plain_from_$from", '-f', "$dir/plain" ], "a plain dump of $from, by psql of $major");
	check_copy($node, "plain_from_$from", $seen);
}

check_log($node);
$node->stop;
done_testing();
