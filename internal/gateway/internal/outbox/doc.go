// Package outbox keeps on disk the numbered batches of a gateway that the server has
// not acknowledged yet, the device messages in them, and the last numbers.
//
// The outbox is a log in a separate directory: segments outbox-N, each a line
// "eusn-outbox 1" and then records. A record is the length of its body (u32), CRC-32C
// of the body (u32) and the body: one byte for the kind, then the fields. Numbers in a
// body are varints; a text is a length, then the bytes.
//
//	b  batch     id subject incarnation seq, origins: n x (session id sum part again), end,
//	             why the payload is unreadable (empty: it is samples), payload
//	m  moved     id given last, then the fields of a batch without origins: the batch was in
//	             the oldest segment
//	d  done      id of a batch that the server has acknowledged
//	f  forget    session: the device has begun a new session
//	s  all that is remembered, at the beginning of each segment: input, boot,
//	   numbers: n x (subject incarnation seq doubt), the one given last at the end,
//	   sessions: n x (session, messages since an id was used twice in the window or 0,
//	   m x (id sum part, id of the batch or 0))
//	e  end       the run has ended, and all is on the disk
//
// A segment is deleted when none of its batches waits and a later segment has begun
// with the whole remembered state. If most of the log is not needed, the few waiting
// batches of the oldest segment move to a new segment, which is synced first. A record cut
// off by the end of the process ends the segment. So does a damaged record; then the file
// is kept under the name outbox-N.damaged, the log reports the damage, and all numbers are
// forgotten, because batches of any subject may be missing. Ids of batches have no gaps
// over segments: a gap is a segment without an end, and counts as damage. After a power
// loss, so does a first segment whose remembered state refers to a batch without a record:
// the segment with this record is missing.
//
// Otherwise only the beginning and the end of a run are synced: the log survives the end
// of the process, and detects a power loss. Boot distinguishes the starts of the machine
// (empty: unknown). A log that does not end with e and was begun before the machine's
// last start may lack its end: its numbers are then in doubt. Package gateway describes
// the consequences.
//
// # Files
//
//   - log.go: writes batches and numbers to disk
//   - segments.go: begins, moves and deletes segments
//   - read.go: reads the segments of an earlier run
//   - record.go: encodes records
//   - sessions.go: remembers the newest messages of each device to detect repeats
//   - held.go: remembers messages whose samples are incomplete
//   - boot_linux.go, boot_other.go: identify the current boot of the machine
package outbox
