# Catalog.pm: everything that the catalogs say of an installed queen, as lines that two databases of one server can be
# compared by. No oid, no order of creation: a fresh install and an update must come to the same lines.
package Catalog;

use strict;
use warnings;

use Exporter 'import';
use Test::More;

our @EXPORT = qw(catalog_of catalog_query compare_catalogs);

# An acl as its entries, sorted; none is what the default says.
sub acl
{
	my ($acl, $kind, $owner) = @_;
	return "(SELECT coalesce(string_agg(a::text, ' ' ORDER BY a::text), '') FROM unnest(coalesce($acl, acldefault('$kind', $owner))) a)";
}

# A comment, and the rights that pg_dump takes for the extension's own (pg_init_privs).
sub remarks
{
	my ($class, $oid) = @_;
	return "format('comment %L initial rights %s', obj_description($oid, '$class'), (SELECT string_agg(a::text, ' ' ORDER BY a::text) "
		. "FROM pg_init_privs i, unnest(initprivs) a WHERE i.objoid = $oid AND i.classoid = '$class'::regclass AND i.objsubid = 0))";
}

my $relation_acl = acl('c.relacl', 'r', 'c.relowner');
my $sequence_acl = acl('c.relacl', 's', 'c.relowner');
my $function_acl = acl('p.proacl', 'f', 'p.proowner');
my $type_acl = acl('t.typacl', 'T', 't.typowner');
my $schema_acl = acl('n.nspacl', 'n', 'n.nspowner');
my $relation_remarks = remarks('pg_class', 'c.oid');
my $function_remarks = remarks('pg_proc', 'p.oid');
my $type_remarks = remarks('pg_type', 't.oid');
my $schema_remarks = remarks('pg_namespace', 'n.oid');

# Not the stamp that minor releases of 15 to 17 leave among a column's options.
my $attribute_options = "(SELECT array_agg(o ORDER BY o) FROM unnest(attoptions) o WHERE o NOT LIKE 'pg_attver=%')";

# One column, sorted. The search path is empty, so that every name is said with its schema.
my $query = qq{
	WITH extension AS (SELECT * FROM pg_extension WHERE extname = 'queen'),
	member AS (SELECT classid, objid FROM pg_depend, extension e
		WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass AND refobjid = e.oid),
	relation AS (SELECT c.* FROM pg_class c WHERE c.relnamespace = 'queen'::regnamespace
		OR c.oid IN (SELECT objid FROM member WHERE classid = 'pg_class'::regclass)),
	line AS (
	SELECT format('extension: version %s schema %s owner %s relocatable %s comment %L', extversion, extnamespace::regnamespace,
		extowner::regrole, extrelocatable, obj_description(oid, 'pg_extension')) AS line FROM extension
	UNION ALL
	SELECT format('dumped: %s %s', o::regclass, extcondition[i]) FROM extension, unnest(extconfig) WITH ORDINALITY d (o, i)
	UNION ALL
	SELECT format('member: %s', pg_describe_object(classid, objid, 0)) FROM member
	UNION ALL
	SELECT format('schema: %s owner %s acl %s %s', nspname, nspowner::regrole, $schema_acl, $schema_remarks)
		FROM pg_namespace n WHERE nspname = 'queen'
	UNION ALL
	SELECT format('default acl: %s %s', defaclobjtype, defaclacl) FROM pg_default_acl WHERE defaclnamespace = 'queen'::regnamespace
	UNION ALL
	SELECT format('function: %s %s owner %s acl %s %s', p.oid::regprocedure, pg_get_functiondef(p.oid), proowner::regrole, $function_acl,
		$function_remarks) FROM pg_proc p WHERE pronamespace = 'queen'::regnamespace AND prokind IN ('f', 'p', 'w')
	UNION ALL
	SELECT format('type: %s kind %s category %s owner %s acl %s labels %s %s', t.oid::regtype, typtype, typcategory, typowner::regrole, $type_acl,
		(SELECT array_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid), $type_remarks)
		FROM pg_type t WHERE typnamespace = 'queen'::regnamespace
	UNION ALL
	SELECT format('relation: %s kind %s persistence %s access method %s tablespace %s options %s toast options %s replica identity %s row security %s %s owner %s acl %s %s',
		c.oid::regclass, relkind, relpersistence, (SELECT amname FROM pg_am WHERE oid = relam), reltablespace, reloptions,
		(SELECT reloptions FROM pg_class t WHERE t.oid = c.reltoastrelid), relreplident, relrowsecurity, relforcerowsecurity, relowner::regrole,
		CASE relkind WHEN 'S' THEN $sequence_acl ELSE $relation_acl END, $relation_remarks) FROM relation c
	UNION ALL
	SELECT format('column: %s %s %s %s collation %s not null %s default %s storage %s compression %s identity %s generated %s statistics %s options %s acl %s comment %L',
		c.oid::regclass, attnum, attname, format_type(atttypid, atttypmod), attcollation::regcollation, attnotnull, pg_get_expr(adbin, adrelid),
		attstorage, attcompression, attidentity, attgenerated, attstattarget, $attribute_options, attacl, col_description(c.oid, attnum))
		FROM relation c JOIN pg_attribute a ON attrelid = c.oid LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
		WHERE attnum > 0 AND relkind <> 'S'
	UNION ALL
	SELECT format('index: %s %s valid %s clustered %s replica identity %s', indexrelid::regclass, pg_get_indexdef(indexrelid), indisvalid,
		indisclustered, indisreplident) FROM pg_index JOIN relation c ON c.oid = indrelid
	UNION ALL
	SELECT format('constraint: %s %s %s validated %s comment %L', conrelid::regclass, conname, pg_get_constraintdef(o.oid), convalidated,
		obj_description(o.oid, 'pg_constraint')) FROM pg_constraint o JOIN relation c ON c.oid = conrelid
	UNION ALL
	SELECT format('sequence: %s %s start %s increment %s from %s to %s cache %s cycle %s', seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement,
		seqmin, seqmax, seqcache, seqcycle) FROM pg_sequence JOIN relation c ON c.oid = seqrelid
	UNION ALL
	SELECT format('view: %s %s', oid::regclass, pg_get_viewdef(oid)) FROM relation WHERE relkind IN ('v', 'm')
	UNION ALL
	SELECT format('trigger: %s %s %s', tgname, tgenabled, pg_get_triggerdef(t.oid)) FROM pg_trigger t JOIN relation c ON c.oid = tgrelid WHERE NOT tgisinternal
	UNION ALL
	SELECT format('policy: %s %s %s', polname, c.oid::regclass, pg_get_expr(polqual, polrelid)) FROM pg_policy JOIN relation c ON c.oid = polrelid)
	SELECT regexp_replace(line, '\\s+', ' ', 'g') FROM line ORDER BY line COLLATE "C"};

# The statements that print it, for a transaction of the caller's.
sub catalog_query
{
	return "SET LOCAL search_path = ''; $query;";
}

sub catalog_of
{
	my ($node, $database) = @_;
	return $node->safe_psql($database, 'BEGIN; ' . catalog_query() . ' COMMIT;');
}

# What only one of two has, a line each: "- " of the first, "+ " of the second.
sub compare_catalogs
{
	my ($first, $second) = @_;
	my %in_first = map { $_ => 1 } split /\n/, $first;
	my %in_second = map { $_ => 1 } split /\n/, $second;

	return join("\n", (map { "- $_" } grep { !$in_second{$_} } sort keys %in_first), (map { "+ $_" } grep { !$in_first{$_} } sort keys %in_second));
}

1;
