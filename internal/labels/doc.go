// Package labels writes and reads the labels of a job: a person's statement about the
// class of a part of a stream. Package learn joins labels with the job's log later; the
// stage does not read them.
//
// A label is a message on <job>.labels.<stream>, in the NATS stream <JOB>-LABELS. Its
// body is JSON:
//
//	{"stream":"pump-7","from":"2026-01-31T12:00:00Z","to":"2026-01-31T12:00:05Z","label":"imbalance","who":"anna","when":"2026-02-01T08:00:00Z"}
//	{"stream":"pump-7","seq":1041,"row":39,"label":"healthy","who":"anna","when":"2026-02-01T08:00:00Z"}
//	{"stream":"pump-7","seq":1041,"row":39,"withdrawn":true,"who":"anna","when":"2026-02-01T08:01:00Z"}
//
// A label names either the samples of a stream from a time on until before another, as
// in their column ts, or one sequence: the sequence of the prediction with that stream,
// seq and row. Times are RFC 3339 in UTC with up to nine digits of a second. who is the
// person or program that sets the label, when is the time of the statement.
//
// seq and row belong to the prediction. seq is the number that the producer gave its
// message (Eusn-Seq): a producer that restarts with a new Eusn-Incarnation reuses the
// same numbers. Then a label names the newest sequence with that number that was stored
// before the label. Predictions of messages without a number have seq 0: only times can
// name them. A recreated input has other sequences: labels from before its creation may
// name missing sequences.
//
// A label replaces every earlier label, in stored order, with the same stream, the same
// samples or sequence, and the same who: so a correction is another label, and a label
// with "withdrawn" withdraws it. Labels of two people for the same samples are
// independent.
//
// The subject's last token is the name of the stream with _ for blanks, dots, * and >:
// for subscriptions and rights. Only the body's stream counts. The header Nats-Msg-Id
// is the SHA-256 of the body, its first 32 hex digits: a resent message is stored once.
// Without the header, a reader still counts it once, because a label replaces its
// repeats.
//
// The NATS stream keeps all labels, up to MaxLabels; then it refuses new labels and
// drops none. A label for samples missing from the input is kept, too.
//
// # Files
//
//   - label.go: defines a label and its JSON
//   - labels.go: writes and reads the labels of a job
package labels
