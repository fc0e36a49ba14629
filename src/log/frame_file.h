/*
 * frame_file.h: frames in a temporary file, in the order of their pushes: where the push buffer goes when it is full.
 *
 * The file is deleted with the transaction, whatever its end, counts against temp_file_limit, and is only ever cut back or
 * appended to. Raises for what a disk can do, except where it says otherwise.
 */
#ifndef QUEEN_LOG_FRAME_FILE_H
#define QUEEN_LOG_FRAME_FILE_H

#include "core/segment.h"
#include "server/pg.h"

namespace queen
{

struct FilePosition
{
	int file;
	off_t offset;
};

struct FrameFile
{
	BufFile *file; /* null until the first append */
	FilePosition end;
	uint64 count; /* frames before end */
	bool at_end;  /* the file stands at end; after a cut or a reading it does not */
	uint64 read;  /* frames read since the last rewind */
};

/* What a frame says before its bytes. */
struct StoredFrame
{
	core::Uuid message_id;
	uint32 partition; /* its number in the buffer */
	bool raw;
	bool has_headers;
	bool keyed;
	core::Uuid key_hash; /* of a keyed one */
	Size headers_size;
	Size payload_size;
};

/* Append a frame; the end has not moved when this raises. key_hash: null for a frame without a dedup_key. */
void frame_file_append(FrameFile *file, uint32 partition, const core::Frame *frame, const core::Uuid *key_hash);

/* Forget all behind a position that was the end when the file had count frames. Never raises, touches no disk. */
void frame_file_cut(FrameFile *file, FilePosition end, uint64 count);

/* Read from the beginning. */
void frame_file_rewind(FrameFile *file);

/* The next frame's head; false after the last. Then frame_file_body must follow. */
bool frame_file_next(FrameFile *file, StoredFrame *head);

/* Its bytes, headers then payload, into room for both. */
void frame_file_body(FrameFile *file, const StoredFrame *head, uint8 *bytes);

/* A frame over bytes that frame_file_body filled. */
core::Frame frame_of(const StoredFrame *head, const uint8 *bytes);

} // namespace queen

#endif
