-- Rights. A new routine is executable by PUBLIC unless it is taken away: here, for all of them at once.

REVOKE ALL ON ALL ROUTINES IN SCHEMA queen FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA queen FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA queen FROM PUBLIC;

GRANT USAGE ON SCHEMA queen TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_blocked() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.status() TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_blocked TO pg_monitor;
