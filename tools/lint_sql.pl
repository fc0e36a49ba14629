#!/usr/bin/env perl
# lint_sql.pl FILE…: what every install script must keep to.
#
# Each rule prints "ok NAME" or "not ok NAME" and its findings.
use strict;
use warnings;

my @rules = ('sql: functions that are not in C pin search_path', 'sql: no right is granted to PUBLIC');
my %findings;
sub found { my ($rule, @where) = @_; push @{ $findings{ $rules[$rule] } }, join(': ', @where); }

foreach my $file (@ARGV)
{
	open my $in, '<', $file or die "$file: $!";
	my $text = do { local $/; <$in> };

	# Comments and bodies in quotes become blanks of the same number of lines; so a semicolon ends a statement.
	$text =~ s{(--[^\n]*)|(/\*.*?\*/)|('(?:[^']|'')*')|(\$([A-Za-z_]\w*)?\$.*?\$(?(5)\5)\$)}
			{ my ($old, $comment) = ($&, defined $1 || defined $2); (my $lines = $old) =~ s/[^\n]//g; $comment ? " $lines" : "''$lines" }gsex;

	my $line = 1;
	my @statements;
	my $open = ''; # a body in standard SQL (BEGIN ATOMIC … END) has semicolons inside
	foreach my $part (split /(?<=;)/, $text)
	{
		$open .= $part;
		next if $open =~ /\bBEGIN\s+ATOMIC\b/i && $open !~ /\bEND\s*;\s*$/i;
		push @statements, $open;
		$open = '';
	}
	push @statements, $open;

	foreach my $s (@statements)
	{
		my ($lead) = $s =~ /^(\s*)/;
		my $at = $line + ($lead =~ tr/\n//);
		$line += ($s =~ tr/\n//);
		if ($s =~ /^\s*CREATE\s+(?:OR\s+REPLACE\s+)?(FUNCTION|PROCEDURE)\s+([\w.]+)/i)
		{
			my $name = $2;
			my ($language) = $s =~ /\bLANGUAGE\s+'?(\w+)/i;
			# names in a body of standard SQL were resolved when it was created
			next if ($language // 'sql') =~ /^(?:c|internal)$/i || $s =~ /\bBEGIN\s+ATOMIC\b|\bRETURN\b/i;
			found(0, "$file:$at", $name) unless $s =~ /\bSET\s+search_path\b/i;
		}
		found(1, "$file:$at") if $s =~ /^\s*GRANT\b.*\bTO\b[^;]*\bPUBLIC\b/is;
		found(1, "$file:$at") if $s =~ /^\s*ALTER\s+DEFAULT\s+PRIVILEGES\b.*\bGRANT\b.*\bPUBLIC\b/is;
	}
}

my $failed = 0;
foreach my $rule (@rules)
{
	my @what = @{ $findings{$rule} // [] };
	print @what ? "not ok $rule\n" : "ok $rule\n";
	print "    $_\n" foreach @what;
	$failed = 1 if @what;
}
exit $failed;
