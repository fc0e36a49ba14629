# cxx.mk: compiler flags of everything that is compiled into a server; shared by the extension and its test module.
#
# Include it before PGXS and put $(queen_cxxflags) into PG_CXXFLAGS. The rules then use, after PGXS is included:
#   queen_server_cppflags   the server's headers as system headers, so that strict warnings fall on our code only
#   queen_core_cppflags     no server header can be found at all: the wall around src/core

# gnu++20, not c++20: the server's headers use typeof. No exception can exist in a process that longjmps.
queen_cxxflags = -std=gnu++20 -fno-exceptions -fno-rtti -fvisibility=hidden -fvisibility-inlines-hidden \
	$(queen_warnings) $(if $(filter-out 0,$(WERROR)),-Werror)

# -Wno-register, -Wno-deprecated-volatile: the server's headers say "register", and its macros count in volatile variables. Callbacks and PG_FUNCTION_ARGS have unused parameters by nature.
queen_warnings = -Wall -Wextra -Wshadow -Wvla -Wundef -Wmissing-declarations -Wnon-virtual-dtor -Woverloaded-virtual \
	-Wimplicit-fallthrough -Wno-register -Wno-unused-parameter -Wno-missing-field-initializers \
	$(if $(queen_cxx_is_clang),$(queen_warnings_clang),-Wlogical-op -Wduplicated-cond)

# PGXS passes the options of the compiler that built the server; clang is told to ignore those that only gcc knows.
# No constructor may run at dlopen: that is the postmaster, before anything is set up.
queen_warnings_clang = -Wno-unknown-warning-option -Wno-unused-command-line-argument -Wno-cast-function-type-strict -Wno-deprecated-volatile \
	-Wglobal-constructors -Wexit-time-destructors

# asked once, and not before PGXS has said what CXX is
queen_cxx_is_clang = $(eval queen_cxx_is_clang := $(findstring clang,$(shell $(CXX) --version 2>/dev/null)))$(queen_cxx_is_clang)

queen_server_cppflags = $(patsubst -I%,-isystem%,$(filter-out -I. -I./ -I$(srcdir),$(CPPFLAGS)))
queen_core_cppflags = $(filter-out -I% -isystem%,$(CPPFLAGS))
