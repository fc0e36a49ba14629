#!/usr/bin/env perl
# lint_src.pl FILE…: the walls between the folders of src/, and what must not stand in its code.
#
# Rules look at code without its comments and strings. Each prints "ok NAME" or "not ok NAME" and its findings.
use strict;
use warnings;

my %findings;
my @rules = (
	'folders: dependencies run one way',
	'core: no header of the server, nothing outside',
	'pg.h: the one place that includes the server',
	'compat.h: the one place of PG_VERSION_NUM',
	'one file registers transaction callbacks',
	'banned words',
);
sub found { my ($rule, @where) = @_; push @{ $findings{ $rules[$rule] } }, join(': ', @where); }

# A folder may include what is of a lower rank. Those of one rank may use each other, but not in a circle.
my %rank = (core => 0, server => 1, hotlist => 2, log => 3, workqueue => 3, timers => 3, state => 3, worker => 4, '' => 5);

# comments become blanks; strings too, unless they are to be kept
sub strip
{
	my ($text, $keep_strings) = @_;
	$text =~ s{(//[^\n]*|/\*.*?\*/)
			|(R"([^()\\\s]{0,16})\(.*?\)\3"|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+')}
			{ my ($old, $comment) = ($&, defined $1); (my $lines = $old) =~ s/[^\n]//g; $comment ? " $lines" : $keep_strings ? $old : "\"\"$lines" }gsex;
	return $text;
}

# what must not be used, and why
my @banned = (
	[ qr/\b(?:throw|try|catch)\b/, 'no exception can exist here' ],
	[ qr/(?<!operator )\bnew\b/, 'memory comes from contexts or is handed in' ],
	[ qr/(?<!= )(?<!=)\bdelete\b/, 'memory comes from contexts or is handed in' ],
	[ qr/\bstd::(?:string|vector|map|set|unordered_\w+|deque|list|function|shared_ptr|unique_ptr|make_\w+)\b/,
		'hides malloc from memory contexts and leaks when an error jumps' ],
	[ qr/\bstd::(?:mutex|thread|condition_variable|async|jthread)\b/, 'no threads in a server' ],
	[ qr/\bstatic\s+std::(?!u?int\w*_t\b|size_t\b|byte\b)/, 'a constructor at dlopen, or a destructor at exit' ],
	[ qr/\bstd::v?s?n?printf\b/, 'printf and its kin are macros of the server' ],
	[ qr/\belog\s*\(\s*(?:ERROR|FATAL|PANIC)\b/, 'ereport with an errcode' ],
);
my $standard = qr/^(?:[a-z_0-9]+|zstd\.h|zstd_errors\.h|xxhash\.h)$/;

my $wall = qr{^src/server/(?:pg|compat)\.h$}; # compat.h is a part of pg.h
my (%edges, @callback_files);
foreach my $file (@ARGV)
{
	open my $in, '<', $file or die "$file: $!";
	my $text = do { local $/; <$in> };
	my ($folder) = $file =~ m{^src/([^/]+)/} ? $1 : '';
	found(0, $file, 'only module.cpp lies in src/ itself') if $folder eq '' && $file ne 'src/module.cpp';
	found(0, $file, "folder $folder has no place in the order, see tools/lint_src.pl") if !exists $rank{$folder};

	my $n = 0;
	foreach my $line (split /\n/, strip($text, 1))
	{
		$n++;
		next unless $line =~ /^\s*#\s*include\s*([<"])([^>"]+)[>"]/;
		my ($angle, $name) = ($1 eq '<', $2);
		if ($angle)
		{
			next if $name =~ $standard;
			if    ($folder eq 'core')           { found(1, "$file:$n", "<$name>"); }
			elsif ($file !~ $wall)  { found(2, "$file:$n", "<$name>"); }
			next;
		}
		if (!-f "src/$name")
		{
			if    ($folder eq 'core')           { found(1, "$file:$n", "\"$name\""); }
			elsif ($file !~ $wall)  { found(2, "$file:$n", "\"$name\" (ours are named from src/ on: \"folder/file.h\")"); }
			next;
		}
		my ($to) = $name =~ m{^([^/]+)/} ? $1 : '';
		next if $to eq $folder;
		if ($folder eq 'core') { found(1, "$file:$n", "\"$name\""); next; }
		my ($from_rank, $to_rank) = ($rank{$folder} // 9, $rank{$to} // 9);
		if    ($to_rank > $from_rank)  { found(0, "$file:$n", "$folder must not know $to (\"$name\")"); }
		elsif ($to_rank == $from_rank) { $edges{$folder}{$to} = "$file:$n"; }
	}

	$n = 0;
	my $registers = 0;
	foreach my $line (split /\n/, strip($text, 0))
	{
		$n++;
		found(3, "$file:$n") if $line =~ /\bPG_VERSION_NUM\b/ && $file ne 'src/server/compat.h';
		$registers = 1 if $line =~ /\bRegister(?:(?:Sub)?Xact|ResourceRelease)Callback\s*\(/;
		next if $line =~ /^\s*#\s*include/; # <new> is a header, too
		foreach my $ban (@banned)
		{
			found(5, "$file:$n", "$&", $ban->[1]) if $line =~ $ban->[0];
		}
	}
	push @callback_files, $file if $registers;
}

foreach my $from (sort keys %edges)
{
	# is there a way back from one of its siblings?
	my @todo = keys %{ $edges{$from} };
	my %seen;
	while (defined(my $at = shift @todo))
	{
		next if $seen{$at}++;
		push @todo, keys %{ $edges{$at} // {} };
	}
	found(0, "$from and its siblings include each other in a circle", join(', ', sort values %{ $edges{$from} })) if $seen{$from};
}
found(4, 'it is in ' . (join(', ', @callback_files) || 'no file'))
	if @callback_files > 1 || (!@callback_files && grep { $_ eq 'src/module.cpp' } @ARGV);

my $failed = 0;
foreach my $rule (@rules)
{
	my @what = @{ $findings{$rule} // [] };
	print @what ? "not ok $rule\n" : "ok $rule\n";
	print "    $_\n" foreach @what;
	$failed = 1 if @what;
}
exit $failed;
