package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNoJob means that no stage has run with the job's name.
var ErrNoJob = errors.New("there is no job")

// Names of a job's NATS streams. A bucket is a NATS stream under a name of its
// own.
func InputStream(job string) string      { return strings.ToUpper(job) + "-IN" }
func OutputStream(job string) string     { return strings.ToUpper(job) + "-OUT" }
func DeadLetterStream(job string) string { return strings.ToUpper(job) + "-DLQ" }
func RowStream(job string) string        { return strings.ToUpper(job) + "-ROWS" }
func LabelStream(job string) string      { return strings.ToUpper(job) + "-LABELS" }
func ShadowStream(job string) string     { return strings.ToUpper(job) + "-SHADOW" }
func AlarmStream(job string) string      { return strings.ToUpper(job) + "-ALARMS" }
func LatestBucket(job string) string     { return strings.ToUpper(job) + "-LATEST" }
func LatestStream(job string) string     { return "KV_" + LatestBucket(job) }
func FeatureStream(job string) string    { return strings.ToUpper(job) + "-FEATURES" }
func SnapshotBucket(job string) string   { return strings.ToUpper(job) + "-SNAP" }
func SnapshotStream(job string) string   { return "OBJ_" + SnapshotBucket(job) }
func ModelBucket(job string) string      { return strings.ToUpper(job) + "-MODELS" }
func ModelStream(job string) string      { return "OBJ_" + ModelBucket(job) }
func MemberBucket(job string) string     { return strings.ToUpper(job) + "-MEMBERS" }
func MemberStream(job string) string     { return "KV_" + MemberBucket(job) }

// Subjects in them, by partition.
func InputSubject(job string, p int, key string) string {
	return fmt.Sprintf("%s.in.%d.%s", job, p, key)
}
func KeySubjects(job, key string) string         { return fmt.Sprintf("%s.in.*.%s", job, key) }
func OutputSubject(job string, p int) string     { return fmt.Sprintf("%s.out.%d", job, p) }
func DeadLetterSubject(job string, p int) string { return fmt.Sprintf("%s.dlq.%d", job, p) }
func RowSubjects(job string, p int) string       { return fmt.Sprintf("%s.rows.%d.*", job, p) }
func RowSubject(job string, p int, epoch uint64) string {
	return fmt.Sprintf("%s.rows.%d.%d", job, p, epoch)
}
func AllRowSubjects(job string) string { return job + ".rows.*.*" }

// ProbeSubject is that of the row that no partition owns: a worker publishes it to learn
// whether a linked server has the job.
func ProbeSubject(job string) string { return RowSubject(job, 0, 0) }

// PartitionOfRow is the partition in the subject of a row; ok is false for what
// is not ours.
func PartitionOfRow(subject string) (part int, ok bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) < 4 {
		return 0, false
	}
	part, err := strconv.Atoi(tokens[len(tokens)-2])
	return part, err == nil && part >= 0
}

// LabelSubject is that of labels of a stream: its name, with _ for what cannot be
// in a token. Streams may share it: a label says itself which it is about.
func LabelSubject(job, stream string) string {
	return job + ".labels." + strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n.*>\x00", r) {
			return '_'
		}
		return r
	}, stream)
}
func LabelSubjects(job string) string { return job + ".labels.*" }

// ShadowSubject is that of what a readout would have predicted.
func ShadowSubject(job, readout string, p int) string {
	return fmt.Sprintf("%s.%s.%s.%d", job, KindShadow, readout, p)
}
func ShadowSubjects(job string) string { return job + "." + KindShadow + ".*.*" }

// AlarmSubject is that of the events of an alarm: its rule, and its key as one or more
// tokens.
func AlarmSubject(job, rule, key string) string {
	return job + "." + KindAlarm + "." + rule + "." + key
}
func AlarmEvents(job string) string   { return job + "." + KindAlarm + ".*.>" }
func AlarmSubjects(job string) string { return job + "." + KindAlarm + ".>" }

// AlarmOutputs are the durable consumers of the alarm log, by name: what has been sent
// where.
var AlarmOutputs = []string{OutputWebhook, OutputMQTT}

const (
	OutputWebhook = "webhook"
	OutputMQTT    = "mqtt"
)

// What else the log of a job's alarms has: who writes it and how far that is, what the
// writer knows, in pieces, and which rules hold.
func AlarmRecordSubject(job string) string { return job + "." + KindAlarm + ".record" }
func AlarmStateSubject(job string) string  { return job + "." + KindAlarm + ".state" }
func AlarmRulesSubject(job string) string  { return job + "." + KindAlarm + ".rules" }

// Subjects of what the process of a job's alarms is asked for.
func AlarmAckSubject(job string) string      { return job + ".alarms.acknowledge" }
func AlarmSetSubject(job string) string      { return job + ".alarms.rules" }
func AlarmAliveSubject(job string) string    { return job + ".alarms.alive" }
func AlarmRequestSubjects(job string) string { return job + ".alarms.*" }

// Service is the name under which the processes of all jobs answer NATS service
// discovery. ReportSubject is where those of a job are asked how they are, and
// AnswerSubjects where their answers go: so they need no right to publish to inboxes.
const Service = "eusn-stream"

func ReportSubject(job string) string  { return job + ".status.report" }
func AnswerSubjects(job string) string { return job + ".status.answer.*" }
func AnswerSubject(job, asker string) string {
	return job + ".status.answer." + asker
}

// HeartbeatSubject is where processes publish that they run. Workers remember them.
func HeartbeatSubject(job string) string { return AnswerSubject(job, "heartbeat") }

// FeatureSubject is that of predictions that carry their features.
func FeatureSubject(job string, p int) string { return fmt.Sprintf("%s.%s.%d", job, KindFeatures, p) }
func FeatureSubjects(job string) string       { return job + "." + KindFeatures + ".*" }

// EntrySubject is that of a job's Entry, in its output.
func EntrySubject(job string) string { return job + ".out." + KindJob }

// SnapshotName is unique: a partition has one owner per epoch, who takes one
// snapshot per input message at most.
func SnapshotName(part int, epoch, inSeq uint64) string {
	return fmt.Sprintf("p%d.e%d.%d", part, epoch, inSeq)
}

// ParseSnapshotName takes a name apart; ok is false for what is not ours.
func ParseSnapshotName(name string) (part int, epoch, inSeq uint64, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "p") || !strings.HasPrefix(parts[1], "e") {
		return 0, 0, 0, false
	}
	part, err1 := strconv.Atoi(parts[0][1:])
	epoch, err2 := strconv.ParseUint(parts[1][1:], 10, 64)
	inSeq, err3 := strconv.ParseUint(parts[2], 10, 64)
	return part, epoch, inSeq, err1 == nil && err2 == nil && err3 == nil
}
