/*
 * frame_file.cpp: frames in a temporary file. See frame_file.h.
 *
 * Raises, but for frame_file_cut. No locks. Runs in backends.
 */
#include "log/frame_file.h"

namespace queen
{

/* The file belongs to the transaction, not to the statement or savepoint in which it happened to be needed. */
static BufFile *
create_file()
{
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext context = MemoryContextSwitchTo(TopTransactionContext);
	BufFile *file;

	CurrentResourceOwner = TopTransactionResourceOwner;
	file = BufFileCreateTemp(false);
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(context);
	return file;
}

static void
seek(FrameFile *file, FilePosition position)
{
	if (BufFileSeek(file->file, position.file, position.offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not seek in the temporary file of pushed messages: %m")));
}

void
frame_file_append(FrameFile *file, uint32 partition, const core::Frame *frame, const core::Uuid *key_hash)
{
	StoredFrame head = {};

	if (file->file == nullptr)
	{
		file->file = create_file();
		file->at_end = true;
	}
	if (!file->at_end)
		seek(file, file->end);
	/* until all is written, an error leaves the file's own position behind the end */
	file->at_end = false;
	head.message_id = frame->message_id;
	head.partition = partition;
	head.raw = frame->raw;
	head.has_headers = frame->has_headers;
	head.keyed = key_hash != nullptr;
	if (head.keyed)
		head.key_hash = *key_hash;
	head.headers_size = frame->headers.size();
	head.payload_size = frame->payload.size();
	buffile_write(file->file, &head, sizeof(head));
	buffile_write(file->file, frame->headers.data(), head.headers_size);
	buffile_write(file->file, frame->payload.data(), head.payload_size);
	BufFileTell(file->file, &file->end.file, &file->end.offset);
	file->count++;
	file->at_end = true;
}

void
frame_file_cut(FrameFile *file, FilePosition end, uint64 count)
{
	file->end = end;
	file->count = count;
	file->at_end = false;
}

void
frame_file_rewind(FrameFile *file)
{
	file->at_end = false;
	file->read = 0;
	seek(file, {0, 0});
}

bool
frame_file_next(FrameFile *file, StoredFrame *head)
{
	if (file->read == file->count)
		return false;
	buffile_read_exact(file->file, head, sizeof(*head));
	file->read++;
	return true;
}

void
frame_file_body(FrameFile *file, const StoredFrame *head, uint8 *bytes)
{
	buffile_read_exact(file->file, bytes, head->headers_size + head->payload_size);
}

core::Frame
frame_of(const StoredFrame *head, const uint8 *bytes)
{
	core::Frame frame = {};

	frame.message_id = head->message_id;
	frame.raw = head->raw;
	frame.has_headers = head->has_headers;
	frame.headers = {bytes, head->headers_size};
	frame.payload = {bytes + head->headers_size, head->payload_size};
	return frame;
}

} // namespace queen
