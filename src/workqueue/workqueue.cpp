/*
 * workqueue.cpp: what this folder offers to src/log. See workqueue.h.
 *
 * Runs in every process that loads the library.
 */
#include "workqueue/workqueue.h"

#include "workqueue/claim_marks.h"
#include "workqueue/cleaner.h"
#include "workqueue/put.h"
#include "workqueue/state.h"

namespace queen
{

const WorkCalls *work_calls = nullptr;

void
workqueue_init()
{
	static constexpr WorkCalls calls = {
		put_one,		 priority_text, message_is_there, messages_delete_log, messages_expire_step,
		messages_states, claim_note_all};

	work_calls = &calls;
	claim_marks_init();
}

} // namespace queen
