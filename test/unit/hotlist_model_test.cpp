/*
 * hotlist_model_test.cpp: runs of the model, one seed after another, until as many steps are made as are asked for.
 *
 *   QUEEN_MODEL_STEPS=n    how many (default: 30 million, 2 million under a sanitizer)
 *   QUEEN_MODEL_SEED=n     the first seed; with QUEEN_MODEL_STEPS=1 that run alone
 *   QUEEN_MODEL_JUDGE=database   do not compare with the contract: what does the database alone notice?
 */
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "hotlist_model.h"

namespace queen::test
{
namespace
{

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t default_steps = 2'000'000;
#else
constexpr std::uint64_t default_steps = 30'000'000;
#endif
constexpr std::uint64_t steps_per_run = 20'000;

std::uint64_t
asked(const char *name, std::uint64_t otherwise)
{
	const char *text = std::getenv(name);

	return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

void
add(ModelCounts &all, const ModelCounts &one)
{
	all.steps += one.steps;
	all.pushed += one.pushed;
	all.takes += one.takes;
	all.probes += one.probes;
	all.walks += one.walks;
	all.checks += one.checks;
	all.unchecked += one.unchecked;
	all.reclaimed += one.reclaimed;
	all.refused += one.refused;
	all.evicted += one.evicted;
	all.swept += one.swept;
	all.overtaken += one.overtaken;
	for (std::size_t v = 0; v < all.verdicts.size(); v++)
		all.verdicts[v] += one.verdicts[v];
}

TEST(HotlistModel, NothingPendingIsLost)
{
	const std::uint64_t steps = asked("QUEEN_MODEL_STEPS", default_steps);
	const char *judge = std::getenv("QUEEN_MODEL_JUDGE");
	const bool judge_contract = judge == nullptr || std::string(judge) != "database";
	ModelCounts all;

	for (std::uint64_t seed = asked("QUEEN_MODEL_SEED", 1); all.steps < steps; seed++)
	{
		Model model(Shape::drawn(seed), judge_contract);

		try
		{
			while (model.counts().steps < steps_per_run)
				model.step();
			model.quiesce();
		}
		catch (const Broken &broken)
		{
			FAIL() << broken.what() << "\nseed " << seed << ", step " << model.counts().steps << " (after "
				   << all.steps + model.counts().steps << " steps in all); again with QUEEN_MODEL_SEED=" << seed
				   << " QUEEN_MODEL_STEPS=1\n"
				   << model.last_events();
		}
		add(all, model.counts());
	}
	std::printf(
		"model: %lu steps, %lu messages, %lu takes, %lu claims, %lu walks, %lu comparisons (%lu while a walk was owed)\n",
		static_cast<unsigned long>(all.steps), static_cast<unsigned long>(all.pushed),
		static_cast<unsigned long>(all.takes), static_cast<unsigned long>(all.probes),
		static_cast<unsigned long>(all.walks), static_cast<unsigned long>(all.checks),
		static_cast<unsigned long>(all.unchecked));
	std::printf(
		"model: none %lu took %lu empty %lu leased %lu deferred %lu locked %lu behind a push %lu; %lu reclaimed, %lu refused, %lu "
		"evicted, %lu swept, %lu taken over\n",
		static_cast<unsigned long>(all.verdicts[0]), static_cast<unsigned long>(all.verdicts[1]),
		static_cast<unsigned long>(all.verdicts[2]), static_cast<unsigned long>(all.verdicts[3]),
		static_cast<unsigned long>(all.verdicts[4]), static_cast<unsigned long>(all.verdicts[5]),
		static_cast<unsigned long>(all.verdicts[6]), static_cast<unsigned long>(all.reclaimed),
		static_cast<unsigned long>(all.refused), static_cast<unsigned long>(all.evicted),
		static_cast<unsigned long>(all.swept), static_cast<unsigned long>(all.overtaken));
	/* a run that mostly waits for walks, or never meets a verdict, would prove little */
	if (steps >= default_steps)
	{
		EXPECT_GT(all.checks, all.unchecked);
		for (const std::uint64_t met : all.verdicts)
			EXPECT_GT(met, steps / 200'000);
		for (const std::uint64_t met : {all.reclaimed, all.refused, all.evicted, all.swept, all.overtaken})
			EXPECT_GT(met, 0U);
	}
}

} // namespace
} // namespace queen::test
