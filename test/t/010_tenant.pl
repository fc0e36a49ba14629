# A tenant that was pinned while the library was not loaded, and so unchecked, serves nobody instead of the nil tenant.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('tenant', preload => '');

$node->safe_psql('postgres', q{
	SELECT queen.push('q', '"of the nil tenant"');
	CREATE ROLE bob LOGIN;
	GRANT USAGE ON SCHEMA queen TO bob;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queen TO bob});

# the sessions that pin have not loaded the library: they can set anything
my $as_bob = sub { return $node->psql('postgres', $_[0], extra_params => [ '-U', 'bob' ]) };
$node->safe_psql('postgres', q{ALTER ROLE bob SET queen.tenant = 'tenant-7'});
foreach my $call (q{SELECT queen.peek('q')}, q{SELECT queen.pop('q')}, q{SELECT queen.push('q', '1')}, q{SELECT * FROM queen.list_queues()})
{
	my ($rc, $out, $err) = $as_bob->($call);
	isnt($rc, 0, "refused: $call");
	like($err, qr/queen\.tenant was given before the library was loaded is not a uuid/, 'and says why');
}
my ($rc, $out, $err) = $as_bob->(q{SELECT queen.status(); SET queen.tenant = ''; SELECT queen.peek('q')});
isnt($rc, 0, 'bob cannot mend it himself');

$node->safe_psql('postgres', q{ALTER ROLE bob SET queen.tenant = '123e4567-e89b-12d3-a456-426614174000'});
($rc, $out, $err) = $as_bob->(q{SELECT count(queen.push('q', '"of bob"')); SELECT message FROM queen.peek('q')});
is($out, qq{1\n"of bob"}, 'a tenant that is one sees its own');
is($node->safe_psql('postgres', q{SELECT message FROM queen.peek('q')}), '"of the nil tenant"', 'and nobody else sees it');

$node->safe_psql('postgres', q{ALTER ROLE bob SET queen.tenant = ''});
($rc, $out, $err) = $as_bob->(q{SELECT message FROM queen.peek('q')});
is($out, '"of the nil tenant"', 'no tenant is the nil tenant');

check_log($node);
$node->stop;
done_testing;
