/*
 * status.cpp: words for the core's statuses, as they appear in the details of errors.
 */
#include "core/types.h"

namespace queen::core
{

const char *
status_name(Status status) noexcept
{
	/* no default: the compiler names a status that was forgotten here */
	switch (status)
	{
		case Status::ok:
			return "ok";
		case Status::end:
			return "end";
		case Status::truncated:
			return "truncated";
		case Status::bad_magic:
			return "bad magic";
		case Status::bad_version:
			return "bad version";
		case Status::bad_checksum:
			return "bad checksum";
		case Status::bad_format:
			return "bad format";
		case Status::too_large:
			return "too large";
		case Status::no_space:
			return "no space";
	}
	return "unknown";
}

} // namespace queen::core
