/*
 * corpus_test.cpp: every input of the fuzz corpus, and what fuzzing found before, goes through the fuzz target's body.
 */
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "segment_harness.h"
#include "support.h"

namespace queen::test
{
namespace
{

TEST(Corpus, EveryFile)
{
	const char *directory = std::getenv("QUEEN_CORPUS");
	std::vector<std::filesystem::path> files;

	ASSERT_NE(directory, nullptr) << "the Makefile sets QUEEN_CORPUS";
	for (const auto &entry : std::filesystem::directory_iterator(directory))
		files.push_back(entry.path());
	std::sort(files.begin(), files.end());
	ASSERT_GE(files.size(), 10u);

	for (const std::filesystem::path &path : files)
	{
		std::ifstream file(path, std::ios::binary);
		const Bytes input((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());

		SCOPED_TRACE(path.filename().string());
		fuzz::run_segment(input.data(), input.size());
	}
}

} // namespace
} // namespace queen::test
