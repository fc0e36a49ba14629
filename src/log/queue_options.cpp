/*
 * queue_options.cpp: a queue's options, from JSON and to JSON.
 *
 * Raises. No locks. Runs in backends.
 */
#include "log/queues.h"

namespace queen
{

namespace
{

const char *
value_kind(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvNull:
			return "null";
		case jbvString:
			return "a string";
		case jbvNumeric:
			return "a number";
		case jbvBool:
			return "a boolean";
		default:
			return "an object or array";
	}
}

[[noreturn]] void
raise_option_type(const char *option, const JsonbValue *value, const char *expected)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("option \"%s\" must not be %s", option, value_kind(value)), errhint("It is %s.", expected)));
	pg_unreachable();
}

double
number_of(const JsonbValue *value)
{
	return DatumGetFloat8(DirectFunctionCall1(numeric_float8, NumericGetDatum(value->val.numeric)));
}

char *
string_of(const JsonbValue *value)
{
	return pnstrdup(value->val.string.val, (Size) value->val.string.len);
}

void
add_option_context(void *arg)
{
	errcontext("option \"%s\"", (const char *) arg);
}

/* A duration: a string that interval_in reads, or a number of seconds. Microseconds within [least, most]. */
int64
duration_option(const char *option, const JsonbValue *value, int64 least, int64 most)
{
	if (value->type == jbvNumeric)
	{
		double seconds = number_of(value);

		if (!(seconds * USECS_PER_SEC >= (double) least && seconds * USECS_PER_SEC <= (double) most))
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("option \"%s\" value %.15g s is out of range", option, seconds),
							errhint("It lies between %s and %s.", interval_text(least), interval_text(most))));
		return (int64) std::rint(seconds * USECS_PER_SEC);
	}
	if (value->type == jbvString)
	{
		ErrorContextCallback context;
		Interval *interval;
		int64 result;

		context.callback = add_option_context;
		context.arg = const_cast<char *>(option);
		context.previous = error_context_stack;
		error_context_stack = &context;
		interval = DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(string_of(value)),
														 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
		result = interval_in_range(interval, psprintf("option \"%s\" value", option), least, most);
		error_context_stack = context.previous;
		return result;
	}
	raise_option_type(option, value, "an interval as a string, or a number of seconds");
}

int32
integer_option(const char *option, const JsonbValue *value, int32 least, int32 most)
{
	double number;

	if (value->type != jbvNumeric)
		raise_option_type(option, value, "an integer");
	number = number_of(value);
	if (!(number >= least && number <= most) || number != (double) (int32) number)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"%s\" value %g is out of range", option, number),
						errhint("It is an integer between %d and %d.", least, most)));
	return (int32) number;
}

int32
compression_option(const JsonbValue *value)
{
	char *text;

	if (value->type != jbvString)
		raise_option_type("compression", value, "\"none\", \"zstd\", or \"zstd:1\" to \"zstd:19\"");
	text = string_of(value);
	if (strcmp(text, "none") == 0)
		return 0;
	if (strcmp(text, "zstd") == 0)
		return core::zstd_level_default;
	if (strncmp(text, "zstd:", 5) == 0)
	{
		const char *digits = text + 5;
		size_t length = strspn(digits, "0123456789");

		if (length >= 1 && length <= 2 && digits[length] == '\0' && atoi(digits) >= core::zstd_level_min &&
			atoi(digits) <= core::zstd_level_max)
			return atoi(digits);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("option \"compression\" has no value \"%s\"", text),
			 errhint("It is \"none\", \"zstd\", or \"zstd:1\" to \"zstd:19\".")));
	pg_unreachable();
}

/* Is a duplicate an error? Otherwise it is dropped. */
bool
dedup_option(const JsonbValue *value)
{
	char *text;

	if (value->type != jbvString)
		raise_option_type("dedup", value, "\"drop\" or \"error\"");
	text = string_of(value);
	if (strcmp(text, "drop") != 0 && strcmp(text, "error") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("option \"dedup\" has no value \"%s\"", text),
						errhint("It is \"drop\" or \"error\".")));
	return text[0] == 'e';
}

bool
boolean_option(const char *option, const JsonbValue *value)
{
	if (value->type != jbvBool)
		raise_option_type(option, value, "true or false");
	return value->val.boolean;
}

/* A duration, or off. */
int64
retention_option(const char *option, const JsonbValue *value)
{
	if (value->type == jbvString && strcmp(string_of(value), "off") == 0)
		return option_off;
	return duration_option(option, value, 0, retention_most);
}

struct RetentionOption
{
	const char *name;
	QueueColumn column;
};

constexpr RetentionOption retention_options[] = {
	{"retention", queue_col_retention},
	{"completed_retention", queue_col_completed_retention},
	{"group_expiry", queue_col_group_expiry},
};

const RetentionOption *
find_retention_option(const char *option)
{
	for (const RetentionOption &candidate : retention_options)
		if (strcmp(candidate.name, option) == 0)
			return &candidate;
	return nullptr;
}

/* An option of both kinds; false when it is none. */
bool
set_shared_option(const char *option, const JsonbValue *value, Datum *values, bool *nulls)
{
	QueueColumn column;
	Datum datum = (Datum) 0;
	bool is_default = value->type == jbvNull;

	if (strcmp(option, "retry_delay") == 0)
	{
		column = queue_col_retry_delay;
		if (value->type == jbvString && strcmp(string_of(value), "exponential") == 0)
			is_default = true;
		if (!is_default)
			datum = Int64GetDatum(duration_option(option, value, 0, 12 * USECS_PER_HOUR));
	}
	else if (strcmp(option, "dead_retention") == 0)
	{
		column = queue_col_dead_retention;
		if (!is_default)
			datum = Int64GetDatum(retention_option(option, value));
	}
	else
		return false;
	values[column] = datum;
	nulls[column] = is_default;
	return true;
}

void
set_work_option(const char *option, const JsonbValue *value, Datum *values, bool *nulls)
{
	QueueColumn column;
	Datum datum = (Datum) 0;
	const bool is_default = value->type == jbvNull;

	if (strcmp(option, "visibility_timeout") == 0)
	{
		column = queue_col_visibility_timeout;
		if (!is_default)
			datum = Int64GetDatum(duration_option(option, value, visibility_least, visibility_most));
	}
	else if (strcmp(option, "max_delivery_attempts") == 0)
	{
		column = queue_col_max_delivery_attempts;
		if (!is_default)
			datum = Int32GetDatum(integer_option(option, value, 1, delivery_attempts_most));
	}
	else if (strcmp(option, "message_ttl") == 0)
	{
		column = queue_col_message_ttl;
		if (!is_default)
			datum = Int64GetDatum(duration_option(option, value, ttl_least, ttl_most));
	}
	else
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a work queue has no option \"%s\"", option),
			 errhint("Options of a work queue: visibility_timeout, max_delivery_attempts, message_ttl, retry_delay, "
					 "dead_retention.")));
	values[column] = datum;
	nulls[column] = is_default;
}

void
set_log_option(const char *option, const JsonbValue *value, Datum *values, bool *nulls)
{
	QueueColumn column;
	Datum datum = (Datum) 0;
	bool is_default = value->type == jbvNull;
	const RetentionOption *retention = find_retention_option(option);

	if (strcmp(option, "lease_time") == 0)
	{
		column = queue_col_lease_time;
		if (!is_default)
			datum = Int64GetDatum(duration_option(option, value, lease_time_least, lease_time_most));
	}
	else if (strcmp(option, "max_deliveries") == 0)
	{
		column = queue_col_max_deliveries;
		if (!is_default)
			datum = Int32GetDatum(integer_option(option, value, 1, 1000));
	}
	else if (strcmp(option, "compression") == 0)
	{
		column = queue_col_compression;
		if (!is_default)
			datum = Int32GetDatum(compression_option(value));
	}
	else if (strcmp(option, "delayed_processing") == 0 || strcmp(option, "window_buffer") == 0)
	{
		column = option[0] == 'd' ? queue_col_delayed_processing : queue_col_window_buffer;
		if (!is_default)
			datum = Int64GetDatum(duration_option(option, value, 0, deferral_most));
	}
	else if (strcmp(option, "dedup_window") == 0)
	{
		column = queue_col_dedup_window;
		if (!is_default)
			datum = Int64GetDatum(duration_option(option, value, 0, dedup_window_most));
	}
	else if (strcmp(option, "dedup") == 0)
	{
		column = queue_col_dedup;
		is_default = is_default || !dedup_option(value);
		if (!is_default)
			datum = CStringGetTextDatum("error");
	}
	else if (strcmp(option, "notify") == 0)
	{
		column = queue_col_notify;
		is_default = is_default || !boolean_option(option, value);
		datum = BoolGetDatum(true);
	}
	else if (retention != nullptr)
	{
		column = retention->column;
		if (!is_default)
			datum = Int64GetDatum(retention_option(option, value));
	}
	else
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a log queue has no option \"%s\"", option),
						errhint("Options of a log queue: lease_time, max_deliveries, retry_delay, compression, "
								"delayed_processing, window_buffer, dedup_window, dedup, retention, "
								"completed_retention, group_expiry, dead_retention, notify.")));
	values[column] = datum;
	nulls[column] = is_default;
}

char *
retention_text(int64 duration)
{
	return duration == option_off ? pstrdup("off") : interval_text(duration);
}

void
push_pair(JsonbParseState **state, const char *key, JsonbValue *value)
{
	JsonbValue name;

	name.type = jbvString;
	name.val.string.val = const_cast<char *>(key);
	name.val.string.len = (int) strlen(key);
	pushJsonbValue(state, WJB_KEY, &name);
	pushJsonbValue(state, WJB_VALUE, value);
}

void
push_string(JsonbParseState **state, const char *key, char *text)
{
	JsonbValue value;

	value.type = jbvString;
	value.val.string.val = text;
	value.val.string.len = (int) strlen(text);
	push_pair(state, key, &value);
}

} // namespace

void
queue_options_merge(Jsonb *options, Datum *values, bool *nulls)
{
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue value;
	char *option = pstrdup("");
	const bool is_work = strcmp(TextDatumGetCString(values[queue_col_kind]), "work") == 0;

	if (!JB_ROOT_IS_OBJECT(options))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("options must be a JSON object"),
						errhint("For example: '{\"lease_time\": \"1 minute\"}'.")));
	iterator = JsonbIteratorInit(&options->root);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			option = string_of(&value);
		else if (token == WJB_VALUE && !set_shared_option(option, &value, values, nulls))
			(is_work ? set_work_option : set_log_option)(option, &value, values, nulls);
	}
}

static void
push_integer(JsonbParseState **state, const char *key, int64 number)
{
	JsonbValue value;

	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	push_pair(state, key, &value);
}

static void
push_retry_delay(JsonbParseState **state, const QueueOptions *options)
{
	push_string(state, "retry_delay",
				options->retry_delay == retry_exponential ? pstrdup("exponential")
														  : interval_text(options->retry_delay));
}

static void
push_log_options(JsonbParseState **state, const QueueOptions *options)
{
	JsonbValue notify;

	push_string(state, "lease_time", interval_text(options->lease_time));
	push_integer(state, "max_deliveries", options->max_deliveries);
	push_retry_delay(state, options);
	push_string(state, "compression",
				options->compression == 0 ? pstrdup("none") : psprintf("zstd:%d", options->compression));
	push_string(state, "delayed_processing", interval_text(options->delayed_processing));
	push_string(state, "window_buffer", interval_text(options->window_buffer));
	push_string(state, "dedup_window", interval_text(options->dedup_window));
	push_string(state, "dedup", pstrdup(options->dedup_error ? "error" : "drop"));
	push_string(state, "retention", retention_text(options->retention));
	push_string(state, "completed_retention", retention_text(options->completed_retention));
	push_string(state, "group_expiry", retention_text(options->group_expiry));
	push_string(state, "dead_retention", retention_text(options->dead_retention));
	notify.type = jbvBool;
	notify.val.boolean = options->notify;
	push_pair(state, "notify", &notify);
}

static void
push_work_options(JsonbParseState **state, const QueueOptions *options)
{
	push_string(state, "visibility_timeout", interval_text(options->visibility_timeout));
	push_integer(state, "max_delivery_attempts", options->max_delivery_attempts);
	push_string(state, "message_ttl", interval_text(options->message_ttl));
	push_retry_delay(state, options);
	push_string(state, "dead_retention", retention_text(options->dead_retention));
}

Datum
queue_options_jsonb(const QueueRow *row)
{
	JsonbParseState *state = nullptr;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
	(row->kind == QueueKind::work ? push_work_options : push_log_options)(&state, &row->options);
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr)));
}

int64
retry_delay_of(const QueueOptions *options, int32 attempts)
{
	constexpr int64 first = USECS_PER_SEC;
	constexpr int64 most = USECS_PER_MINUTE;

	if (options->retry_delay != retry_exponential)
		return options->retry_delay;
	/* 1, 2, 4 … 32, 60 s */
	return attempts > 6 ? most : Min(first << Max(attempts - 1, 0), most);
}

} // namespace queen
