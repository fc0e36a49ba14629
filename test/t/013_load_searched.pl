# The random load once more on a server where queen is not preloaded: every append searches its partition's newest segment.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster; # before the load's file is run: they set themselves up when all is compiled
use PostgreSQL::Test::Utils;

BEGIN { $ENV{QUEEN_LOAD_PRELOAD} = 'queen_test' }

do "$FindBin::RealBin/005_load.pl" or die $@ || $!;
