// Package labels writes and reads the labels of a job: what somebody says that a
// part of a stream was. Package learn joins them with the job's log later; the
// stage does not read them.
//
// A label is a message on <job>.labels.<stream>, in the NATS stream <JOB>-LABELS.
// Its body is JSON:
//
//	{"stream":"pump-7","from":"2026-01-31T12:00:00Z","to":"2026-01-31T12:00:05Z","label":"imbalance","who":"anna","when":"2026-02-01T08:00:00Z"}
//	{"stream":"pump-7","seq":1041,"row":39,"label":"healthy","who":"anna","when":"2026-02-01T08:00:00Z"}
//	{"stream":"pump-7","seq":1041,"row":39,"withdrawn":true,"who":"anna","when":"2026-02-01T08:01:00Z"}
//
// It names either the samples of a stream from a time on until before another
// one, as their column ts has it, or one sequence: that of the prediction with
// that stream, seq and row. Times are RFC 3339 in UTC with up to nine digits of a
// second. who is the person or program that says so, when is the time at which
// it was said.
//
// seq and row are the prediction's. seq is the number that the producer gave its
// message (Eusn-Seq): a producer that begins again with a new Eusn-Incarnation uses
// the same numbers again. Then a label is about the newest sequence of that name that
// was stored before the label. Predictions of messages without a number have seq 0:
// they are named by their times alone. An input that is deleted and made again has
// other sequences: labels from before its creation may be about nothing that is there.
//
// A label replaces every earlier one, in the order in which the server stored
// them, of the same stream and the same samples or sequence by the same who:
// so a correction is another label, and one with "withdrawn" takes it back.
// What two people say of the same samples stands side by side.
//
// The subject's last token is the name of the stream with _ for blanks, dots, *
// and >: for subscriptions and rights. The body's stream is what counts. The
// header Nats-Msg-Id is the SHA-256 of the body, its first 32 hex digits: a
// message that is sent again is stored once. Without that, a reader still counts
// it once, because it replaces itself.
//
// The NATS stream keeps all labels, up to MaxLabels; then it refuses new ones and
// drops none. A label of something that is not in the input is kept, too.
//
// # Files
//
//   - label.go: defines a label and its JSON
//   - labels.go: writes and reads the labels of a job
package labels
