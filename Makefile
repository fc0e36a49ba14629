# Makefile: builds queen.so and queen--VERSION.sql with PGXS; every other goal is a script in tools/.
#
#   make                       build against the server that PG_CONFIG names
#   make install               into that server (DESTDIR works)
#   make installcheck          pg_regress and isolation tests on a running server that has test/regress.conf's settings
#   make demo check bench soak on a private copy of the server, as root or not; install what is missing with apt first
#   make check-versions        check on PostgreSQL 15, 17 and 18, each on a fresh Debian; root only (see tools/versions.sh)
#   make bench-core            what the calls of src/core/hotlist cost, in pairs of taking and releasing a lock; no server
#   make lint tidy format unit the parts
#   make reference             write the generated parts of docs/reference.md from the catalog of a fresh install
#
# Variables: PG_CONFIG or PG_MAJOR (which server), CXX (g++ or clang++), WERROR=1 (warnings are errors: CI),
# for check: SUITES="regress tap", TESTS="names", KEEP=1 (see tools/check.sh), for check-versions: VERSIONS="17 18" too,
# for demo: INPUT=file, KEY=json.path or column, RATE=events/s (see demo/README.md),
# for soak: MINUTES=5 or SECONDS=300, SEED=1, KILL_EVERY=60 (see tools/soak.sh),
# and for bench: BENCHES="push hotlist wake idle held_snapshot retention timers workqueue state pgmq", PGMQ=dir with pgmq's sources, REPS, SECONDS_EACH, SYNC, … (see bench/*.sh).

script_goals := demo check check-versions bench bench-core soak lint tidy format unit reference help

ifneq ($(filter $(script_goals),$(MAKECMDGOALS)),)

# ---- goals that are scripts: nothing of PostgreSQL is needed to read this half, the scripts install it first ----

.NOTPARALLEL:
.PHONY: $(MAKECMDGOALS)

check:
	@tools/check.sh

check-versions:
	@tools/need.sh versions
	@tools/versions.sh $(VERSIONS)

demo:
	@tools/need.sh demo
	@tools/with_server.sh demo/demo.sh

bench:
	@tools/need.sh bench
	@tools/with_server.sh -c shared_buffers=1GB -c max_wal_size=8GB $(if $(POOL),-c queen.hotlist_size=$(POOL)) bench/run.sh

bench-core:
	@tools/need.sh bench-core
	+@$(MAKE) --no-print-directory -C bench/core

soak:
	@SOAK_SECONDS='$(SECONDS)' tools/soak.sh

lint:
	@tools/need.sh lint
	@tools/lint.sh

tidy:
	@tools/need.sh lint
	@tools/tidy.sh

format:
	@tools/need.sh lint
	@tools/format.sh

unit:
	@tools/need.sh test
	+@$(MAKE) --no-print-directory -C test/unit check

reference:
	@tools/need.sh docs
	@tools/with_server.sh tools/reference.py

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

# "make all check": the other goals need the other half of this file
$(filter-out $(script_goals),$(MAKECMDGOALS)):
	+@$(MAKE) --no-print-directory $@

else

# ---- goals of PGXS ----

here := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))

# Debian's /usr/bin/pg_config is a wrapper that answers for the newest version, so the versioned one is named.
ifndef PG_CONFIG
ifdef PG_MAJOR
PG_CONFIG := /usr/lib/postgresql/$(PG_MAJOR)/bin/pg_config
else
PG_CONFIG := $(firstword $(wildcard /usr/lib/postgresql/15/bin/pg_config) pg_config)
endif
endif

PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq ($(wildcard $(PGXS)),)
$(error no PGXS from "$(PG_CONFIG) --pgxs": name another server with PG_CONFIG=, or install one with "tools/need.sh build")
endif

EXTENSION = queen
MODULE_big = queen

# The install script, in this order. A file in sql/ that is not named here is an error, and so is the reverse.
SQL_FILES = sql/00_header.sql \
	sql/10_tables.sql \
	sql/15_triggers.sql \
	sql/20_types.sql \
	sql/30_admin.sql \
	sql/35_groups.sql \
	sql/40_push.sql \
	sql/45_timers.sql \
	sql/47_workqueue.sql \
	sql/50_pop.sql \
	sql/55_wait.sql \
	sql/60_ack.sql \
	sql/65_dead.sql \
	sql/70_views.sql \
	sql/71_events.sql \
	sql/72_state.sql \
	sql/73_storage.sql \
	sql/75_hotlist.sql \
	sql/77_workers.sql \
	sql/80_maintain.sql \
	sql/82_verify.sql \
	sql/85_rights.sql \
	sql/90_grants.sql

install_script := queen--$(shell sed -n "s/^default_version = '\(.*\)'$$/\1/p" $(here)/queen.control).sql
DATA_built = $(install_script)
DATA = $(patsubst $(here)/%,%,$(wildcard $(here)/sql/upgrade/queen--*.sql)) monitoring/queen_exporter.yaml

sources := $(patsubst $(here)/src/%,%,$(wildcard $(here)/src/*.cpp $(here)/src/*/*.cpp $(here)/src/*/*/*.cpp))
OBJS = $(sources:%.cpp=build/obj/%.o)
SHLIB_LINK += -lzstd

REGRESS = $(basename $(notdir $(sort $(wildcard $(here)/test/sql/*.sql))))
REGRESS_OPTS = --inputdir=$(here)/test --outputdir=build/installcheck
ISOLATION = $(basename $(notdir $(sort $(wildcard $(here)/test/specs/*.spec))))
ISOLATION_OPTS = --inputdir=$(here)/test --outputdir=build/installcheck

EXTRA_CLEAN = build

# No bitcode: PGXS would compile it without our flags, and inlining our functions gains nothing.
override with_llvm = no
include $(here)/mk/cxx.mk
PG_CXXFLAGS = $(queen_cxxflags)
include $(PGXS)
# PGXS would link with CC
override COMPILER = $(CXX) $(CXXFLAGS)

# ---- objects: own rules, because PGXS has none that tracks headers everywhere, nor one with a wall for the core ----

compile_core = $(CXX) $(CXXFLAGS) -I$(here)/src $(queen_core_cppflags)
compile_server = $(CXX) $(CXXFLAGS) -I$(here)/src $(queen_server_cppflags)

# Rewritten only when the commands change, so that another compiler or server never meets old objects.
build/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(compile_server)) # PostgreSQL $(VERSION)' | cmp -s - $@ || \
		echo '$(subst ','\'',$(compile_server)) # PostgreSQL $(VERSION)' >$@

build/obj/core/%.o: $(here)/src/core/%.cpp build/flags
	@mkdir -p $(@D)
	$(compile_core) -MMD -MP -c -o $@ $<

build/obj/%.o: $(here)/src/%.cpp build/flags
	@mkdir -p $(@D)
	$(compile_server) -MMD -MP -c -o $@ $<

-include $(OBJS:.o=.d)

# for tools/lint.sh and tools/tidy.sh
print-install-script: $(install_script) ; @echo '$<'
print-core-compile: ; @echo '$(subst ','\'',$(compile_core))'
print-server-compile: ; @echo '$(subst ','\'',$(compile_server))'

# ---- the install script ----

$(install_script): $(wildcard $(SQL_FILES:%=$(here)/%)) $(here)/Makefile | sql-list
	@for f in $(SQL_FILES); do echo; echo "-- $$f"; cat "$(here)/$$f" || exit 1; done >$@.tmp && mv $@.tmp $@

sql_present = $(patsubst $(here)/%,%,$(wildcard $(here)/sql/*.sql))
sql-list:
	$(if $(filter-out $(sql_present),$(SQL_FILES)),$(error listed in SQL_FILES, but missing: $(filter-out $(sql_present),$(SQL_FILES))))
	$(if $(filter-out $(SQL_FILES),$(sql_present)),$(error in sql/, but not listed in SQL_FILES: $(filter-out $(SQL_FILES),$(sql_present))))
	@:

FORCE:
.PHONY: FORCE sql-list print-install-script print-core-compile print-server-compile

endif
