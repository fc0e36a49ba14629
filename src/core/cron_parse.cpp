/*
 * cron_parse.cpp: the text of a recurring timer's rule. See cron.h; README.md has the grammar.
 */
#include "core/cron.h"

namespace queen::core
{

namespace
{

struct FieldRule
{
	CronField field;
	std::uint8_t low;
	std::uint8_t high;	  /* what "*" ends with, and the largest step's bound */
	std::uint8_t highest; /* that may be written: 7 is Sunday, too */
	const char *names;	  /* three letters each, from low on */
};

constexpr int fields = 5;
constexpr FieldRule field_rules[fields] = {
	{CronField::minute, 0, 59, 59, ""},
	{CronField::hour, 0, 23, 23, ""},
	{CronField::day, 1, 31, 31, ""},
	{CronField::month, 1, 12, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
	{CronField::weekday, 0, 6, 7, "sunmontuewedthufrisat"},
};

struct FieldSet
{
	std::uint64_t bits;
	bool star; /* somewhere in it */
};

constexpr bool
is_blank(char c) noexcept
{
	return c == ' ' || c == '\t';
}

constexpr bool
is_digit(char c) noexcept
{
	return c >= '0' && c <= '9';
}

/* A letter in lower case, else 0. */
constexpr char
letter(char c) noexcept
{
	if (c >= 'A' && c <= 'Z')
		c = static_cast<char>(c - 'A' + 'a');
	return c >= 'a' && c <= 'z' ? c : '\0';
}

/* A text that is read from left to right. The first failure is kept. */
class Scanner
{
  public:
	Scanner(std::string_view text, CronError &error) noexcept : text_(text), error_(error)
	{
	}

	/* The byte at the position; 0 at the end, which no rule has inside either. */
	char
	peek() const noexcept
	{
		return at_ < text_.size() ? text_[at_] : '\0';
	}

	bool
	at_end() const noexcept
	{
		return at_ == text_.size();
	}

	std::size_t
	position() const noexcept
	{
		return at_;
	}

	bool
	take(char c) noexcept
	{
		if (at_end() || text_[at_] != c)
			return false;
		at_++;
		return true;
	}

	void
	skip_blanks() noexcept
	{
		while (is_blank(peek()))
			at_++;
	}

	/* Digits, of which there is one at least. What is over most counts as most + 1. */
	std::int64_t
	number(std::int64_t most) noexcept
	{
		std::int64_t value = 0;

		for (; is_digit(peek()); at_++)
		{
			value = value * 10 + (peek() - '0');
			if (value > most)
				value = most + 1;
		}
		return value;
	}

	/* Which of the names, of length letters each, the letters here are; -1: none. The letters are passed. */
	int
	name(const char *names, std::size_t length) noexcept
	{
		const std::size_t begin = at_;

		while (letter(peek()) != '\0')
			at_++;
		if (at_ - begin != length)
			return -1;
		for (int n = 0; *names != '\0'; n++, names += length)
		{
			std::size_t same = 0;

			while (same < length && letter(text_[begin + same]) == names[same])
				same++;
			if (same == length)
				return n;
		}
		return -1;
	}

	bool
	fail(CronReason reason, CronField field, std::size_t position) noexcept
	{
		error_ = {reason, field, position};
		return false;
	}

  private:
	std::string_view text_;
	CronError &error_;
	std::size_t at_ = 0;
};

/* A number or a name of the field. A range's last value is told its first: Sunday behind another day is 7. */
bool
parse_value(Scanner &in, const FieldRule &rule, int first, int &value) noexcept
{
	const std::size_t begin = in.position();

	if (is_digit(in.peek()))
	{
		value = static_cast<int>(in.number(rule.highest));
		if (value < rule.low || value > rule.highest)
			return in.fail(CronReason::out_of_range, rule.field, begin);
		return true;
	}
	if (letter(in.peek()) == '\0')
		return in.fail(CronReason::expected_value, rule.field, begin);
	value = in.name(rule.names, 3);
	if (value < 0)
		return in.fail(CronReason::unknown_name, rule.field, begin);
	value += rule.low;
	if (rule.field == CronField::weekday && value == 0 && first > 0)
		value = 7;
	return true;
}

/* "*", "a", "a-b", each but the second with "/step" or without. */
bool
parse_item(Scanner &in, const FieldRule &rule, FieldSet &set) noexcept
{
	const std::size_t begin = in.position();
	int first = rule.low;
	int last = rule.high;
	int step = 1;
	bool range = true;

	if (in.take('*'))
		set.star = true;
	else
	{
		if (!parse_value(in, rule, 0, first))
			return false;
		last = first;
		range = in.take('-');
		if (range && !parse_value(in, rule, first, last))
			return false;
		if (last < first)
			return in.fail(CronReason::reversed_range, rule.field, begin);
	}

	const std::size_t slash = in.position();
	if (in.take('/'))
	{
		if (!range)
			return in.fail(CronReason::step_without_range, rule.field, slash);
		/* a longer step takes the first value only, so whoever wrote it meant something else */
		step = static_cast<int>(in.number(rule.high - rule.low));
		if (step < 1 || step > rule.high - rule.low)
			return in.fail(CronReason::bad_step, rule.field, slash + 1);
	}
	for (int value = first; value <= last; value += step)
		set.bits |= std::uint64_t{1} << value;
	return true;
}

bool
parse_field(Scanner &in, const FieldRule &rule, FieldSet &set) noexcept
{
	set = {0, false};
	do
	{
		if (!parse_item(in, rule, set))
			return false;
	} while (in.take(','));
	if (!in.at_end() && !is_blank(in.peek()))
		return in.fail(CronReason::unexpected_character, rule.field, in.position());
	return true;
}

constexpr std::uint64_t
all_of(const FieldRule &rule) noexcept
{
	return (std::uint64_t{2} << rule.high) - (std::uint64_t{1} << rule.low);
}

/* Is there such a day in a year or another? Every weekday falls on every date of the calendar, 29 February too. */
bool
matches_ever(const CronSpec &spec) noexcept
{
	constexpr std::uint8_t longest[13] = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	if (spec.either_day)
		return true;
	for (int month = 1; month <= 12; month++)
		if ((spec.months >> month & 1) != 0 && (spec.days & ((2u << longest[month]) - 1)) != 0)
			return true;
	return false;
}

/* From the sets of the fields to a spec. */
CronSpec
spec_of(const FieldSet (&set)[fields]) noexcept
{
	const std::uint64_t weekdays = (set[4].bits | set[4].bits >> 7) & 0x7f;
	const bool each_hour = set[1].bits == all_of(field_rules[1]);

	return {0,
			set[0].bits,
			static_cast<std::uint32_t>(set[1].bits),
			static_cast<std::uint32_t>(set[2].bits),
			static_cast<std::uint16_t>(set[3].bits),
			static_cast<std::uint8_t>(weekdays),
			!set[2].star && !set[4].star,
			each_hour || (set[0].star && set[1].star)};
}

bool
parse_fields(Scanner &in, CronSpec &spec) noexcept
{
	FieldSet set[fields];

	for (int i = 0; i < fields; i++)
	{
		in.skip_blanks();
		if (in.at_end())
			return in.fail(CronReason::missing_field, field_rules[i].field, in.position());
		if (!parse_field(in, field_rules[i], set[i]))
			return false;
	}
	in.skip_blanks();
	if (!in.at_end())
		return in.fail(CronReason::extra_field, CronField::whole, in.position());

	const CronSpec parsed = spec_of(set);
	if (!matches_ever(parsed))
		return in.fail(CronReason::never_matches, CronField::whole, 0);
	spec = parsed;
	return true;
}

/* "1h30m": numbers with units, the larger unit first. */
bool
parse_interval(Scanner &in, CronSpec &spec) noexcept
{
	constexpr char units[] = {'d', 'h', 'm', 's'};
	constexpr std::int64_t seconds[] = {86400, 3600, 60, 1};
	const std::size_t begin = in.position();
	std::int64_t total = 0;
	std::size_t unit = 0;

	do
	{
		if (!is_digit(in.peek()))
			return in.fail(CronReason::bad_interval, CronField::whole, in.position());
		const std::int64_t count = in.number(cron_longest_interval);
		while (unit < 4 && units[unit] != letter(in.peek()))
			unit++;
		if (unit == 4)
			return in.fail(CronReason::bad_interval, CronField::whole, in.position());
		in.take(in.peek());
		total += count * seconds[unit++];
	} while (!in.at_end() && !is_blank(in.peek()));

	if (total < 1 || total > cron_longest_interval)
		return in.fail(CronReason::interval_out_of_range, CronField::whole, begin);
	in.skip_blanks();
	if (!in.at_end())
		return in.fail(CronReason::unexpected_character, CronField::whole, in.position());
	spec = {total, 0, 0, 0, 0, 0, false, false};
	return true;
}

struct Nickname
{
	std::string_view name;
	std::string_view fields;
};

constexpr Nickname nicknames[] = {
	{"hourly", "0 * * * *"},  {"daily", "0 0 * * *"},  {"midnight", "0 0 * * *"}, {"weekly", "0 0 * * 0"},
	{"monthly", "0 0 1 * *"}, {"yearly", "0 0 1 1 *"}, {"annually", "0 0 1 1 *"},
};

/* What stands behind an "@". */
bool
parse_nickname(Scanner &in, CronSpec &spec, CronError &error) noexcept
{
	const std::size_t begin = in.position();

	for (const Nickname &nickname : nicknames)
	{
		Scanner word = in;

		if (word.name(nickname.name.data(), nickname.name.size()) != 0)
			continue;
		word.skip_blanks();
		if (!word.at_end())
			return word.fail(CronReason::unexpected_character, CronField::whole, word.position());
		Scanner rule(nickname.fields, error);
		return parse_fields(rule, spec);
	}
	if (in.name("every", 5) != 0)
		return in.fail(CronReason::unknown_nickname, CronField::whole, begin);
	if (!is_blank(in.peek()))
		return in.fail(CronReason::bad_interval, CronField::whole, in.position());
	in.skip_blanks();
	return parse_interval(in, spec);
}

} // namespace

bool
cron_parse(std::string_view text, CronSpec &spec, CronError &error) noexcept
{
	Scanner in(text, error);

	in.skip_blanks();
	return in.take('@') ? parse_nickname(in, spec, error) : parse_fields(in, spec);
}

} // namespace queen::core
