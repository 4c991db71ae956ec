package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNoJob reports that no stage has run with the job's name.
var ErrNoJob = errors.New("there is no job")

// Names of a job's NATS streams. A bucket is a NATS stream with a prefixed name.
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

// Streams returns the names of all NATS streams that a job can have. The last two identify the
// job: without them there is no job.
func Streams(job string) []string {
	return []string{InputStream(job), DeadLetterStream(job), RowStream(job), LabelStream(job), ShadowStream(job), AlarmStream(job), LatestStream(job), FeatureStream(job), ModelStream(job), MemberStream(job), SnapshotStream(job), OutputStream(job)}
}

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

// ProbeSubject returns the subject of the row that no partition owns: a worker
// publishes it to check whether a linked server has the job.
func ProbeSubject(job string) string { return RowSubject(job, 0, 0) }

// PartitionOfRow returns the partition in the subject of a row; ok is false for other
// subjects.
func PartitionOfRow(subject string) (part int, ok bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) < 4 {
		return 0, false
	}
	part, err := strconv.Atoi(tokens[len(tokens)-2])
	return part, err == nil && part >= 0
}

// LabelSubject returns the subject of a stream's labels: the stream's name, with _ for
// characters not allowed in a token. Streams may share a subject: a label contains its
// stream.
func LabelSubject(job, stream string) string {
	return job + ".labels." + strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n.*>\x00", r) {
			return '_'
		}
		return r
	}, stream)
}
func LabelSubjects(job string) string { return job + ".labels.*" }

// ShadowSubject returns the subject of a shadow's predictions.
func ShadowSubject(job, readout string, p int) string {
	return fmt.Sprintf("%s.%s.%s.%d", job, KindShadow, readout, p)
}
func ShadowSubjects(job string) string { return job + "." + KindShadow + ".*.*" }

// AlarmSubject returns the subject of the events of an alarm: its rule, and its key as
// one or more tokens.
func AlarmSubject(job, rule, key string) string {
	return job + "." + KindAlarm + "." + rule + "." + key
}
func AlarmEvents(job string) string   { return job + "." + KindAlarm + ".*.>" }
func AlarmSubjects(job string) string { return job + "." + KindAlarm + ".>" }

// AlarmOutputs are the durable consumers of the alarm log, by name: each stores the
// position of an output.
var AlarmOutputs = []string{OutputWebhook, OutputMQTT}

const (
	OutputWebhook = "webhook"
	OutputMQTT    = "mqtt"
)

// Other subjects in the log of a job's alarms: the writer and its position, the
// writer's state, in pieces, and the active rules.
func AlarmRecordSubject(job string) string { return job + "." + KindAlarm + ".record" }
func AlarmStateSubject(job string) string  { return job + "." + KindAlarm + ".state" }
func AlarmRulesSubject(job string) string  { return job + "." + KindAlarm + ".rules" }

// Subjects of requests to the alarm process of a job.
func AlarmAckSubject(job string) string      { return job + ".alarms.acknowledge" }
func AlarmSetSubject(job string) string      { return job + ".alarms.rules" }
func AlarmAliveSubject(job string) string    { return job + ".alarms.alive" }
func AlarmRequestSubjects(job string) string { return job + ".alarms.*" }

// Service is the name under which the processes of all jobs answer NATS service
// discovery. A job's processes receive status requests on ReportSubject, and send
// answers to AnswerSubjects, so they need no right to publish to inboxes.
const Service = "eusn-stream"

func ReportSubject(job string) string  { return job + ".status.report" }
func AnswerSubjects(job string) string { return job + ".status.answer.*" }
func AnswerSubject(job, asker string) string {
	return job + ".status.answer." + asker
}

// HeartbeatSubject is the subject of the processes' heartbeats. Workers store them.
func HeartbeatSubject(job string) string { return AnswerSubject(job, "heartbeat") }

// FeatureSubject returns the subject of predictions that carry their features.
func FeatureSubject(job string, p int) string { return fmt.Sprintf("%s.%s.%d", job, KindFeatures, p) }
func FeatureSubjects(job string) string       { return job + "." + KindFeatures + ".*" }

// EntrySubject returns the subject of a job's Entry, in its output.
func EntrySubject(job string) string { return job + ".out." + KindJob }

// SnapshotName is unique: a partition has one owner per epoch, which takes at most one
// snapshot per input message.
func SnapshotName(part int, epoch, inSeq uint64) string {
	return fmt.Sprintf("p%d.e%d.%d", part, epoch, inSeq)
}

// ParseSnapshotName splits a name; ok is false for other names.
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
