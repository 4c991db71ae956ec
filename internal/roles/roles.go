package roles

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Role is a kind of user of a job.
type Role string

const (
	Sensor   Role = "sensor"   // publishes samples
	Gateway  Role = "gateway"  // publishes samples; reads the input's newest samples and the job's input settings
	Stage    Role = "stage"    // is a worker on another machine; creates no NATS streams
	Reader   Role = "reader"   // reads predictions and alarms
	Analyst  Role = "analyst"  // reads the input, predictions, states and models, to repeat predictions, explain, record or learn; publishes nothing
	Labeler  Role = "labeler"  // reads predictions, writes and reads labels
	Alarms   Role = "alarms"   // reads predictions; writes the alarm log and the state of each stream
	Operator Role = "operator" // inspects and repairs the job
)

// All lists the roles, in the order in which samples pass them.
var All = []Role{Sensor, Gateway, Stage, Reader, Analyst, Labeler, Alarms, Operator}

// Purpose describes the use of a role.
func (r Role) Purpose() string {
	return map[Role]string{
		Sensor:   "publishes samples",
		Gateway:  "publishes samples and resumes at the input's newest sample: eusn-stream gateway, resuming clients",
		Stage:    "is a worker of the job on another machine",
		Reader:   "reads predictions and alarms: eusn-stream tail, alarms list, alarms tail, the clients",
		Analyst:  "reads the job's input, labels and models, to repeat and explain predictions, record and learn: eusn-stream job backfill, explain, record, learn, tail, model list, model show",
		Labeler:  "reads predictions, writes and reads labels",
		Alarms:   "raises alarms for predictions: eusn-stream alarms run",
		Operator: "inspects and repairs the job: status, partitions, state, deadletter, doctor, replay, model, alarms ack",
	}[r]
}

// Validate refuses an unknown role.
func (r Role) Validate() error {
	if !slices.Contains(All, r) {
		return fmt.Errorf("role %q, want one of %v", string(r), All)
	}
	return nil
}

// Rights are the subjects of a user, with wildcards. Deny lists exceptions from Publish.
type Rights struct{ Publish, Deny, Subscribe []string }

// InboxPrefix is the prefix of a user's inbox. Each user has a separate inbox, so no user can
// read another user's answers; clients must set it.
func InboxPrefix(user string) string { return "_INBOX." + user }

// RightsOf returns the minimum rights of a user with a role, in a job with a name and an input
// subject. An invalid subject is an error.
func RightsOf(role Role, user, job, subject string) (Rights, error) {
	pattern, err := wire.ParsePattern(subject)
	if err != nil {
		return Rights{}, fmt.Errorf("roles: %w", err)
	}
	input, output, labels, models := wire.InputStream(job), wire.OutputStream(job), wire.LabelStream(job), wire.ModelStream(job)
	rows, alarms, latest := wire.RowStream(job), wire.AlarmStream(job), wire.LatestStream(job)
	r := Rights{Subscribe: []string{InboxPrefix(user) + ".>"}}
	if role != Alarms && role != Operator { // consumers with the outputs' names store the sending positions
		for _, output := range wire.AlarmOutputs {
			r.Deny = append(r.Deny, apiSubject("CONSUMER.*", alarms+"."+output), apiSubject("CONSUMER.*", alarms+"."+output+".>"), apiSubject("CONSUMER.MSG.NEXT", alarms+"."+output))
		}
	}
	allowPublish := func(subjects ...string) { r.Publish = append(r.Publish, subjects...) }
	allowSubscribe := func(subjects ...string) { r.Subscribe = append(r.Subscribe, subjects...) }
	switch role {
	case Gateway, Stage, Alarms: // these processes answer status requests
		allowSubscribe("$SRV.*", "$SRV.*."+wire.Service, "$SRV.*."+wire.Service+".*", wire.ReportSubject(job))
		allowPublish(wire.AnswerSubjects(job))
		if role == Stage {
			allowSubscribe(wire.HeartbeatSubject(job))
		}
	case Operator: // sends the status requests
		allowPublish("$SRV.>")
		allowSubscribe(wire.AnswerSubjects(job))
	}
	switch role {
	case Sensor:
		allowPublish(pattern.Filters()...)
	case Gateway:
		allowPublish(pattern.Filters()...)
		allowPublish(apiSubject("STREAM.INFO", input), apiSubject("STREAM.MSG.GET", input))
		allowPublish(apiSubject("STREAM.INFO", output), apiSubject("STREAM.MSG.GET", output)) // the job's input settings
	case Stage:
		allowPublish(stageRights(job)...)
		allowPublish(pattern.Subjects()...) // end events (stage.idle)
		allowPublish(readRights(output)...)
	case Reader:
		allowPublish(readRights(output)...)
		allowPublish(readRights(alarms)...)
		allowPublish(readRights(latest)...)
		allowPublish(apiSubject("STREAM.MSG.GET", alarms), apiSubject("DIRECT.GET", latest), apiSubject("DIRECT.GET", latest+".>"))
	case Analyst:
		allowPublish(readRights(input)...)
		allowPublish(readRights(labels)...)
		allowPublish(readRights(wire.ShadowStream(job))...)
		allowPublish(readRights(wire.FeatureStream(job))...)
		allowPublish(apiSubject("STREAM.MSG.GET", input)) // to detect a recreated input
		allowPublish(readRights(output)...)
		allowPublish(apiSubject("STREAM.MSG.GET", output)) // the job's input settings, its model, the author of a prediction
		allowPublish(objectRights(models)...)
		allowPublish(objectRights(wire.SnapshotStream(job))...)
		allowPublish(apiSubject("STREAM.INFO", rows), apiSubject("STREAM.MSG.GET", rows))
	case Labeler:
		allowPublish(wire.LabelSubjects(job))
		allowPublish(readRights(output)...)
		allowPublish(readRights(labels)...)
	case Alarms:
		allowPublish(readRights(output)...)
		allowPublish(apiSubject("STREAM.MSG.GET", output))
		allowPublish(wire.AlarmAliveSubject(job))
		allowPublish(wire.AlarmSubjects(job), "$KV."+wire.LatestBucket(job)+".>", InboxPrefix(">"), "$JS.API.INFO")               // answers to acknowledgement requests
		allowPublish(apiSubject("STREAM.INFO", latest), apiSubject("STREAM.MSG.GET", alarms), apiSubject("STREAM.PURGE", alarms)) // without the right to create NATS streams: a NATS stream can have any source, and publish anywhere
		allowPublish(readRights(alarms)...)
		for _, output := range wire.AlarmOutputs {
			allowPublish(apiSubject("CONSUMER.PAUSE", alarms+"."+output)) // to resume a paused consumer
		}
		allowPublish("$JS.ACK." + alarms + ".>")
		allowSubscribe(wire.AlarmRequestSubjects(job))
	case Operator:
		allowPublish(pattern.Subjects()...)
		allowPublish(job+".>", "$KV."+wire.MemberBucket(job)+".>", "$O."+wire.SnapshotBucket(job)+".>", "$O."+wire.ModelBucket(job)+".>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>")
	}
	return r, nil
}

func apiSubject(call, stream string) string { return "$JS.API." + call + "." + stream }

// readRights returns the rights for reading a NATS stream with a consumer that acknowledges
// nothing.
func readRights(stream string) []string {
	return append([]string{apiSubject("STREAM.INFO", stream), apiSubject("CONSUMER.MSG.NEXT", stream+".>")}, consumerRights(stream)...)
}

// consumerRights returns the rights for an ephemeral consumer: create, inspect and delete; but
// not pause, reset or unpin.
func consumerRights(stream string) []string {
	return []string{apiSubject("CONSUMER.CREATE", stream+".>"), apiSubject("CONSUMER.INFO", stream+".>"), apiSubject("CONSUMER.DELETE", stream+".>")}
}

// objectRights returns the rights for reading the objects of a bucket.
func objectRights(stream string) []string {
	return append([]string{apiSubject("STREAM.INFO", stream), apiSubject("STREAM.MSG.GET", stream), "$JS.FC." + stream + ".>"}, consumerRights(stream)...)
}

// stageRights returns the rights of a worker as documented in docs/nats.md.
func stageRights(job string) []string {
	input, output, dead, rows := wire.InputStream(job), wire.OutputStream(job), wire.DeadLetterStream(job), wire.RowStream(job)
	snaps, members := wire.SnapshotStream(job), wire.MemberStream(job)
	s := []string{
		job + ".out.*", job + ".dlq.*", wire.ShadowSubjects(job), wire.FeatureSubjects(job), job + ".rows.*.*", "$KV." + wire.MemberBucket(job) + ".>", "$O." + wire.SnapshotBucket(job) + ".>",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.FC." + snaps + ".>", "$JS.FC." + input + ".>",
	}
	for _, name := range []string{input, output, dead, rows, snaps, members, wire.FeatureStream(job)} {
		s = append(s, apiSubject("STREAM.INFO", name))
	}
	for _, name := range []string{input, output, rows, snaps} {
		s = append(s, apiSubject("STREAM.MSG.GET", name))
	}
	s = append(s, "$O."+wire.ModelBucket(job)+".>")
	s = append(s, objectRights(wire.ModelStream(job))...)
	s = append(s, consumerRights(input)...)
	s = append(s, consumerRights(snaps)...)
	return append(s,
		apiSubject("STREAM.MSG.DELETE", rows), apiSubject("STREAM.PURGE", snaps), apiSubject("STREAM.PURGE", members), apiSubject("CONSUMER.MSG.NEXT", input+".>"))
}
