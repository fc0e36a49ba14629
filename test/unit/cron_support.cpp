/*
 * cron_support.cpp: see cron_support.h.
 */
#include "cron_support.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <map>

#include "gtest/gtest.h"

namespace queen::test
{

using core::CronSpec;

std::int32_t
TableZone::at(std::int64_t utc) const
{
	std::int32_t offset = first;

	for (const Change &change : changes)
		if (utc >= change.utc)
			offset = change.offset;
	return offset;
}

std::int32_t
TableZone::offset_at(void *zone, std::int64_t utc) noexcept
{
	TableZone *table = static_cast<TableZone *>(zone);

	table->asked++;
	return table->at(utc);
}

TableZone
utc_zone()
{
	return {};
}

TableZone
berlin()
{
	return {3600,
			{{instant("2024-03-31 01:00"), 7200},
			 {instant("2024-10-27 01:00"), 3600},
			 {instant("2025-03-30 01:00"), 7200},
			 {instant("2025-10-26 01:00"), 3600},
			 {instant("2026-03-29 01:00"), 7200},
			 {instant("2026-10-25 01:00"), 3600}}};
}

TableZone
new_york()
{
	return {-18000,
			{{instant("2024-03-10 07:00"), -14400},
			 {instant("2024-11-03 06:00"), -18000},
			 {instant("2025-03-09 07:00"), -14400},
			 {instant("2025-11-02 06:00"), -18000},
			 {instant("2026-03-08 07:00"), -14400},
			 {instant("2026-11-01 06:00"), -18000}}};
}

TableZone
lord_howe()
{
	return {39600,
			{{instant("2024-04-06 15:00"), 37800},
			 {instant("2024-10-05 15:30"), 39600},
			 {instant("2025-04-05 15:00"), 37800},
			 {instant("2025-10-04 15:30"), 39600},
			 {instant("2026-04-04 15:00"), 37800},
			 {instant("2026-10-03 15:30"), 39600}}};
}

TableZone
casablanca()
{
	return {3600,
			{{instant("2024-03-10 02:00"), 0},
			 {instant("2024-04-14 02:00"), 3600},
			 {instant("2025-02-23 02:00"), 0},
			 {instant("2025-04-06 02:00"), 3600},
			 {instant("2026-02-15 02:00"), 0},
			 {instant("2026-03-22 02:00"), 3600}}};
}

TableZone
apia()
{
	return {-36000,
			{{instant("2011-04-02 14:00"), -39600},
			 {instant("2011-09-24 14:00"), -36000},
			 {instant("2011-12-30 10:00"), 50400},
			 {instant("2012-03-31 14:00"), 46800},
			 {instant("2012-09-29 14:00"), 50400}}};
}

std::int64_t
instant(const std::string &text)
{
	std::tm time{};
	const std::string format = text.size() > 16 ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M";

	EXPECT_NE(strptime(text.c_str(), format.c_str(), &time), nullptr) << text;
	return timegm(&time);
}

std::string
text_of(std::int64_t seconds)
{
	const std::time_t time = seconds;
	std::tm parts{};
	char text[64];

	gmtime_r(&time, &parts);
	std::strftime(text, sizeof(text), parts.tm_sec == 0 ? "%Y-%m-%d %H:%M" : "%Y-%m-%d %H:%M:%S", &parts);
	return text;
}

CronSpec
rule(const std::string &text)
{
	CronSpec spec{};
	core::CronError error{};

	EXPECT_TRUE(core::cron_parse(text, spec, error)) << text << ": " << core::cron_reason_text(error.reason);
	return spec;
}

std::optional<std::int64_t>
next(const CronSpec &spec, std::int64_t after, TableZone &zone)
{
	std::int64_t found = -1;

	if (!core::cron_next(spec, after, 0, TableZone::offset_at, &zone, found))
		return std::nullopt;
	return found;
}

std::vector<std::string>
shown(const std::string &text, const std::string &after, TableZone zone, std::size_t count)
{
	const CronSpec spec = rule(text);
	std::vector<std::string> result;
	std::int64_t at = instant(after);

	while (result.size() < count)
	{
		const std::optional<std::int64_t> found = next(spec, at, zone);

		if (!found)
			break;
		at = *found;
		const std::int32_t offset = zone.at(at);
		result.push_back(text_of(at + offset) + (offset == 0 ? "" : " " + std::to_string(offset / 60)));
	}
	return result;
}

bool
minute_matches(const CronSpec &spec, std::int64_t label)
{
	const std::time_t time = label;
	std::tm t{};

	gmtime_r(&time, &t);
	const bool day = (spec.days >> t.tm_mday & 1) != 0;
	const bool weekday = (spec.weekdays >> t.tm_wday & 1) != 0;
	return t.tm_sec == 0 && (spec.minutes >> t.tm_min & 1) != 0 && (spec.hours >> t.tm_hour & 1) != 0 &&
		   (spec.months >> (t.tm_mon + 1) & 1) != 0 && (spec.either_day ? day || weekday : day && weekday);
}

std::vector<std::int64_t>
oracle(const CronSpec &spec, std::int64_t after, std::int64_t last, const TableZone &zone, std::int64_t step)
{
	std::vector<std::int64_t> result;
	/* three days before: what is shown twice is within that */
	std::int64_t utc = after - after % step - 3 * 86400;
	std::int64_t reached = utc + zone.at(utc);

	for (utc += step; utc <= last; utc += step)
	{
		const std::int64_t now = utc + zone.at(utc);
		bool due = false;

		if (spec.elapsed)
			due = minute_matches(spec, now);
		else
			for (; reached < now; reached += step)
				due = due || minute_matches(spec, reached + step);
		if (due && utc > after)
			result.push_back(utc);
	}
	return result;
}

namespace
{

std::vector<std::string>
cut(const std::string &text, const std::string &at)
{
	std::vector<std::string> parts(1);

	for (const char c : text)
		if (at.find(c) != std::string::npos)
			parts.emplace_back();
		else
			parts.back() += c;
	return parts;
}

std::optional<int>
naive_number(const std::string &text)
{
	if (text.empty() || !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }))
		return std::nullopt;
	const std::string digits = text.substr(std::min(text.find_first_not_of('0'), text.size() - 1));
	return digits.size() > 8 ? 99999999 : std::stoi(digits);
}

/* Field number n of five: its bits, where a weekday's bit 7 is still its own. */
std::optional<std::uint64_t>
naive_field(const std::string &text, std::size_t n)
{
	static const int low[] = {0, 0, 1, 1, 0};
	static const int high[] = {59, 23, 31, 12, 6};
	static const std::map<std::string, int> names[] = {
		{},
		{},
		{},
		{{"jan", 1},
		 {"feb", 2},
		 {"mar", 3},
		 {"apr", 4},
		 {"may", 5},
		 {"jun", 6},
		 {"jul", 7},
		 {"aug", 8},
		 {"sep", 9},
		 {"oct", 10},
		 {"nov", 11},
		 {"dec", 12}},
		{{"sun", 0}, {"mon", 1}, {"tue", 2}, {"wed", 3}, {"thu", 4}, {"fri", 5}, {"sat", 6}}};
	std::uint64_t bits = 0;

	for (const std::string &item : cut(text, ","))
	{
		const std::vector<std::string> parts = cut(item, "/");
		const std::vector<std::string> ends = cut(parts[0], "-");
		std::vector<int> values;

		for (const std::string &end : ends)
		{
			std::optional<int> value = naive_number(end);

			if (names[n].count(end) != 0)
				value = end == "sun" && !values.empty() && values[0] > 0 ? 7 : names[n].at(end);
			if (!value || *value < low[n] || *value > high[n] + (n == 4 ? 1 : 0))
			{
				if (parts[0] != "*")
					return std::nullopt;
				values = {low[n], high[n]};
				break;
			}
			values.push_back(*value);
		}
		const std::optional<int> step = parts.size() > 1 ? naive_number(parts[1]) : 1;
		if (parts.size() > 2 || values.size() > 2 || (parts.size() == 2 && values.size() == 1) || !step || *step < 1 ||
			*step > high[n] - low[n] || values.back() < values[0])
			return std::nullopt;
		for (int value = values[0]; value <= values.back(); value += *step)
			bits |= std::uint64_t{1} << value;
	}
	return bits;
}

} // namespace

std::optional<CronSpec>
naive_parse(std::string text)
{
	static const std::map<std::string, std::string> nicknames = {
		{"@hourly", "0 * * * *"},  {"@daily", "0 0 * * *"},	 {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
		{"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}};

	std::transform(text.begin(), text.end(), text.begin(),
				   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
	std::vector<std::string> words;
	for (const std::string &word : cut(text, " \t"))
		if (!word.empty())
			words.push_back(word);
	if (words.size() == 1 && nicknames.count(words[0]) != 0)
		words = cut(nicknames.at(words[0]), " ");
	if (words.size() != 5)
		return std::nullopt;

	std::uint64_t bits[5];
	for (std::size_t n = 0; n < 5; n++)
	{
		const std::optional<std::uint64_t> field = naive_field(words[n], n);

		if (!field)
			return std::nullopt;
		bits[n] = *field;
	}
	const auto star = [&words](std::size_t n) { return words[n].find('*') != std::string::npos; };
	return CronSpec{0,
					bits[0],
					static_cast<std::uint32_t>(bits[1]),
					static_cast<std::uint32_t>(bits[2]),
					static_cast<std::uint16_t>(bits[3]),
					static_cast<std::uint8_t>((bits[4] | bits[4] >> 7) & 0x7f),
					!star(2) && !star(4),
					bits[1] == 0xffffff || (star(0) && star(1))};
}

} // namespace queen::test
