# A tenant that was pinned while the library was not loaded, and so unchecked, serves nobody instead of the nil tenant; and
# a pin is not got rid of by what a session says before the library is loaded.
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
($rc, $out, $err) = $as_bob->(q{SET queen.tenant = ''; SELECT queen.peek('q')});
like($err, qr/queen\.tenant was set before the library was loaded, by a role that may not set it/, 'nor before the library is loaded');

$node->safe_psql('postgres', q{ALTER ROLE bob SET queen.tenant = '123e4567-e89b-12d3-a456-426614174000'});
($rc, $out, $err) = $as_bob->(q{SELECT count(queen.push('q', '"of bob"')); SELECT message FROM queen.peek('q')});
is($out, qq{1\n"of bob"}, 'a tenant that is one sees its own');
is($node->safe_psql('postgres', q{SELECT message FROM queen.peek('q')}), '"of the nil tenant"', 'and nobody else sees it');

$node->safe_psql('postgres', q{ALTER ROLE bob SET queen.tenant = ''});
($rc, $out, $err) = $as_bob->(q{SELECT message FROM queen.peek('q')});
is($out, '"of the nil tenant"', 'no tenant is the nil tenant');

# ---- a pin holds, whatever the role says ----

my ($pin, $other) = ('123e4567-e89b-12d3-a456-426614174000', '123e4567-e89b-12d3-a456-426614174001');
my $look = q{SELECT string_agg(message::text, ' ') FROM queen.peek('q')};
$node->safe_psql('postgres', qq{
	ALTER ROLE bob SET queen.tenant = '$pin';
	CREATE ROLE ann LOGIN;
	SELECT queen.grant_admin('ann'), queen.grant_admin('bob');
	CREATE ROLE serves LOGIN;
	SELECT queen.grant_admin('serves');
	GRANT SET ON PARAMETER queen.tenant TO serves;
	ALTER ROLE serves SET queen.tenant = '$pin'});
$node->safe_psql('postgres', qq{SET queen.tenant = '$other'; SELECT queen.push('q', '"of the other"')});

# Each connects, says something, and looks. What the connection is told takes the place of the pin: then nobody is served.
# What the session says afterwards is refused, and the pin holds.
sub pinned
{
	my ($server, $loaded) = @_;
	foreach my $value ($other, '', 'x')
	{
		foreach my $role ('bob', 'ann')
		{
			local $ENV{PGOPTIONS} = "-c queen.tenant=$value";
			my ($rc, $out, $err) = $server->psql('postgres', $look, extra_params => [ '-U', $role ]);
			isnt($rc, 0, "$loaded, $role connects with '$value': no answer");
			like($err, qr/permission denied to set parameter "queen.tenant"|queen.tenant was set before the library was loaded, by a role that may not|is not a uuid/,
				'and says why');
		}
		my ($rc, $out, $err) = $server->psql('postgres', "SET queen.tenant = '$value'; RESET queen.tenant; RESET ALL; DISCARD ALL; $look",
			extra_params => [ '-U', 'bob' ], on_error_stop => 0);
		is($out, '"of bob"', "$loaded, bob sets '$value' and resets: the pin holds");
		($rc, $out, $err) = $server->psql('postgres', "SET queen.tenant = '$value'; $look", extra_params => [ '-U', 'bob' ], on_error_stop => 0);
		unlike($out, qr/nil|other/, "$loaded, bob sets '$value': he sees nobody else's");
		($rc, $out, $err) = $server->psql('postgres', qq{ALTER ROLE bob SET queen.tenant = '$value'}, extra_params => [ '-U', 'bob' ]);
		like($err, qr/permission denied/, "$loaded: he pins himself to nothing else");
	}
	$server->psql('postgres', 'ALTER ROLE bob RESET queen.tenant', extra_params => [ '-U', 'bob' ]);
	$server->psql('postgres', 'ALTER ROLE bob RESET ALL', extra_params => [ '-U', 'bob' ]);
	my ($rc, $out, $err) = $server->psql('postgres', $look, extra_params => [ '-U', 'bob' ]);
	is($out, '"of bob"', "$loaded: nor does he take the pin away");
	is($server->safe_psql('postgres', "SET ROLE ann; $look"), '"of the nil tenant"', "$loaded: SET ROLE changes no tenant");
	is($server->safe_psql('postgres', "SET SESSION AUTHORIZATION bob; $look"), '"of the nil tenant"', "$loaded: nor does SET SESSION AUTHORIZATION");

	local $ENV{PGOPTIONS} = "-c queen.tenant=$other";
	is($server->safe_psql('postgres', $look, extra_params => [ '-U', 'serves' ]), '"of the other"', "$loaded: whoever may set it does, as it connects");
}
pinned($node, 'not preloaded');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'queen'");
$node->restart;
pinned($node, 'preloaded');

check_log($node);
$node->stop;
done_testing;
