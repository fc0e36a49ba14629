/*
 * module.cpp: the library's entry. Runs once in every process that loads it; raises when a setting's name is taken.
 */
#include "hotlist/gates.h"
#include "hotlist/journal.h"
#include "hotlist/pool.h"
#include "log/aborted.h"
#include "log/changes.h"
#include "log/event_counts.h"
#include "log/flush.h"
#include "log/tails.h"
#include "log/timer_news.h"
#include "server/attended.h"
#include "server/relations.h"
#include "server/settings.h"
#include "server/xact.h"
#include "state/drifted.h"
#include "state/rollup.h"
#include "state/snapshot.h"
#include "state/spread.h"
#include "timers/counts.h"
#include "timers/due.h"
#include "worker/events.h"
#include "worker/launcher.h"
#include "worker/registry.h"
#include "workqueue/claim_marks.h"
#include "workqueue/put.h"
#include "workqueue/workqueue.h"

extern "C"
{
PG_MODULE_MAGIC;
}

void
_PG_init(void)
{
	queen::settings_init();
	queen::relations_init();
	queen::tails_init();
	queen::pool_init();
	queen::gates_init();
	queen::aborted_init();
	queen::changes_init();
	queen::event_counts_init();
	queen::spread_init();
	queen::drifted_init();
	queen::snapshot_init();
	queen::workqueue_init();
	queen::timer_news_init();
	queen::timer_counts_init();
	queen::attended_init();
	queen::registry_init();
	queen::transaction_init();
	queen::transaction_join(queen::TransactionStage::log_push, &queen::push_participant);
	queen::transaction_join(queen::TransactionStage::log_cursors, &queen::cursor_changes_participant);
	queen::transaction_join(queen::TransactionStage::hotlist, &queen::journal_participant);
	queen::transaction_join(queen::TransactionStage::waiting, &queen::waiting_participant);
	queen::transaction_join(queen::TransactionStage::aborted, &queen::aborted_participant);
	queen::transaction_join(queen::TransactionStage::work_put, &queen::put_participant);
	queen::transaction_join(queen::TransactionStage::work_marks, &queen::claim_marks_participant);
	queen::transaction_join(queen::TransactionStage::timer_news, &queen::timer_news_participant);
	queen::transaction_join(queen::TransactionStage::timers_due, &queen::due_participant);
	queen::transaction_join(queen::TransactionStage::timer_counts, &queen::timer_counts_participant);
	queen::transaction_join(queen::TransactionStage::event_counts, &queen::event_counts_participant);
	queen::transaction_join(queen::TransactionStage::workers, &queen::events_participant);
	queen::transaction_join(queen::TransactionStage::rollup, &queen::rollup_participant);
	queen::events_init();
	queen::launcher_init();
}
