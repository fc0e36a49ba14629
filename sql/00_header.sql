-- queen: the install script is assembled from sql/NN_topic.sql in the order that the Makefile lists.

-- complain if the script is sourced in psql rather than run by CREATE EXTENSION
\echo Use "CREATE EXTENSION queen" to load this file. \quit

-- Nothing in this extension is for PUBLIC: rights are given by role, see 90_grants.sql.
REVOKE ALL ON SCHEMA @extschema@ FROM PUBLIC;
