package roles

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Role is what somebody does with a job.
type Role string

const (
	Sensor   Role = "sensor"   // publishes samples
	Gateway  Role = "gateway"  // publishes samples, reads how far the input has them and what the job reads
	Stage    Role = "stage"    // is a worker on another machine; makes no NATS streams
	Reader   Role = "reader"   // reads predictions and alarms
	Analyst  Role = "analyst"  // reads the input, predictions, states and models, to predict again, explain, record or learn; publishes nothing
	Labeller Role = "labeller" // reads predictions, writes and reads labels
	Alarms   Role = "alarms"   // reads predictions, writes the alarm log and what is known of each stream
	Operator Role = "operator" // looks at the job and mends it
)

// All are the roles, in the order of the way of a sample.
var All = []Role{Sensor, Gateway, Stage, Reader, Analyst, Labeller, Alarms, Operator}

// Does says what a role is for.
func (r Role) Does() string {
	return map[Role]string{
		Sensor:   "publishes samples",
		Gateway:  "publishes samples and continues where the input is: eusn-stream gateway, clients that resume",
		Stage:    "is a worker of the job on another machine",
		Reader:   "reads predictions and alarms: eusn-stream tail, alarms list, alarms tail, the clients",
		Analyst:  "reads the job's input, labels and models, predicts it again, explains predictions, records it and learns from it: eusn-stream backfill, explain, record, learn, tail, model list, model show",
		Labeller: "reads predictions, writes and reads labels",
		Alarms:   "raises alarms for predictions: eusn-stream alarms run",
		Operator: "looks at the job and mends it: status, partitions, state, deadletter, doctor, replay, model, alarms ack",
	}[r]
}

// Check refuses what is no role.
func (r Role) Check() error {
	if !slices.Contains(All, r) {
		return fmt.Errorf("role %q, want one of %v", string(r), All)
	}
	return nil
}

// Rights are the subjects that somebody may use, wildcards included. What Deny has may not
// be published to, although Publish allows it.
type Rights struct{ Publish, Deny, Subscribe []string }

// InboxPrefix is where answers to a user arrive. Each user has its own, so that
// nobody hears another's: clients must be set to it.
func InboxPrefix(user string) string { return "_INBOX." + user }

// RightsOf are the least rights with which a user does what its role is for, in
// the job of that name whose input subject that is. A subject that cannot be one
// is an error.
func RightsOf(role Role, user, job, subject string) (Rights, error) {
	pattern, err := wire.ParsePattern(subject)
	if err != nil {
		return Rights{}, fmt.Errorf("roles: %w", err)
	}
	in, out, labels, models := wire.InputStream(job), wire.OutputStream(job), wire.LabelStream(job), wire.ModelStream(job)
	rows, alarms, latest := wire.RowStream(job), wire.AlarmStream(job), wire.LatestStream(job)
	r := Rights{Subscribe: []string{InboxPrefix(user) + ".>"}}
	if role != Alarms && role != Operator { // what outputs have sent is in consumers of their names
		for _, output := range wire.AlarmOutputs {
			r.Deny = append(r.Deny, api("CONSUMER.*", alarms+"."+output), api("CONSUMER.*", alarms+"."+output+".>"), api("CONSUMER.MSG.NEXT", alarms+"."+output))
		}
	}
	add := func(subjects ...string) { r.Publish = append(r.Publish, subjects...) }
	hear := func(subjects ...string) { r.Subscribe = append(r.Subscribe, subjects...) }
	switch role {
	case Gateway, Stage, Alarms: // say how they are
		hear("$SRV.*", "$SRV.*."+wire.Service, "$SRV.*."+wire.Service+".*", wire.ReportSubject(job))
		add(wire.AnswerSubjects(job))
		if role == Stage {
			hear(wire.HeartbeatSubject(job))
		}
	case Operator: // asks them
		add("$SRV.>")
		hear(wire.AnswerSubjects(job))
	}
	switch role {
	case Sensor:
		add(pattern.Filters()...)
	case Gateway:
		add(pattern.Filters()...)
		add(api("STREAM.INFO", in), api("STREAM.MSG.GET", in))
		add(api("STREAM.INFO", out), api("STREAM.MSG.GET", out)) // how the job reads its messages
	case Stage:
		add(stage(job)...)
		add(pattern.Subjects()...) // end events (stage.idle)
		add(reading(out)...)
	case Reader:
		add(reading(out)...)
		add(reading(alarms)...)
		add(reading(latest)...)
		add(api("STREAM.MSG.GET", alarms), api("DIRECT.GET", latest), api("DIRECT.GET", latest+".>"))
	case Analyst:
		add(reading(in)...)
		add(reading(labels)...)
		add(reading(wire.ShadowStream(job))...)
		add(reading(wire.FeatureStream(job))...)
		add(api("STREAM.MSG.GET", in)) // whether it is still what it was
		add(reading(out)...)
		add(api("STREAM.MSG.GET", out)) // how the job reads its messages, which model it runs, who made a prediction
		add(objects(models)...)
		add(objects(wire.SnapshotStream(job))...)
		add(api("STREAM.INFO", rows), api("STREAM.MSG.GET", rows))
	case Labeller:
		add(wire.LabelSubjects(job))
		add(reading(out)...)
		add(reading(labels)...)
	case Alarms:
		add(reading(out)...)
		add(api("STREAM.MSG.GET", out))
		add(wire.AlarmAliveSubject(job))
		add(wire.AlarmSubjects(job), "$KV."+wire.LatestBucket(job)+".>", InboxPrefix(">"), "$JS.API.INFO") // answers to those who acknowledge
		add(api("STREAM.INFO", latest), api("STREAM.MSG.GET", alarms), api("STREAM.PURGE", alarms))        // it makes neither: a NATS stream can have any source, and publish anywhere
		add(reading(alarms)...)
		for _, output := range wire.AlarmOutputs {
			add(api("CONSUMER.PAUSE", alarms+"."+output)) // somebody has paused it: it is resumed
		}
		add("$JS.ACK." + alarms + ".>")
		hear(wire.AlarmRequestSubjects(job))
	case Operator:
		add(pattern.Subjects()...)
		add(job+".>", "$KV."+wire.MemberBucket(job)+".>", "$O."+wire.SnapshotBucket(job)+".>", "$O."+wire.ModelBucket(job)+".>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>")
	}
	return r, nil
}

func api(call, stream string) string { return "$JS.API." + call + "." + stream }

// reading is what a consumer of a NATS stream that acknowledges nothing needs.
func reading(stream string) []string {
	return append([]string{api("STREAM.INFO", stream), api("CONSUMER.MSG.NEXT", stream+".>")}, consuming(stream)...)
}

// consuming is what a consumer needs that exists as long as it is used: to be made, looked
// at and removed. It is not paused, reset or unpinned.
func consuming(stream string) []string {
	return []string{api("CONSUMER.CREATE", stream+".>"), api("CONSUMER.INFO", stream+".>"), api("CONSUMER.DELETE", stream+".>")}
}

// objects is what reading the objects of a bucket needs.
func objects(stream string) []string {
	return append([]string{api("STREAM.INFO", stream), api("STREAM.MSG.GET", stream), "$JS.FC." + stream + ".>"}, consuming(stream)...)
}

// stage is what docs/nats.md gives a worker.
func stage(job string) []string {
	in, out, dead, rows := wire.InputStream(job), wire.OutputStream(job), wire.DeadLetterStream(job), wire.RowStream(job)
	snaps, members := wire.SnapshotStream(job), wire.MemberStream(job)
	s := []string{
		job + ".out.*", job + ".dlq.*", wire.ShadowSubjects(job), wire.FeatureSubjects(job), job + ".rows.*.*", "$KV." + wire.MemberBucket(job) + ".>", "$O." + wire.SnapshotBucket(job) + ".>",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.FC." + snaps + ".>", "$JS.FC." + in + ".>",
	}
	for _, name := range []string{in, out, dead, rows, snaps, members, wire.FeatureStream(job)} {
		s = append(s, api("STREAM.INFO", name))
	}
	for _, name := range []string{in, out, rows, snaps} {
		s = append(s, api("STREAM.MSG.GET", name))
	}
	s = append(s, "$O."+wire.ModelBucket(job)+".>")
	s = append(s, objects(wire.ModelStream(job))...)
	s = append(s, consuming(in)...)
	s = append(s, consuming(snaps)...)
	return append(s,
		api("STREAM.MSG.DELETE", rows), api("STREAM.PURGE", snaps), api("STREAM.PURGE", members), api("CONSUMER.MSG.NEXT", in+".>"))
}
