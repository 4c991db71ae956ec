package fleet_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestTwoWorkers: two workers answer. After a kill of one worker, the other takes over, and the job
// is up to date.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conf := pipeline.Config{Partitions: 8, Lease: time.Second}
	first := r.startWorker(testModel(t), conf)
	second := r.startWorker(testModel(t), conf)
	reads := func(rep *fleet.Report, workers, each int) bool {
		for _, p := range rep.Processes {
			if !p.Stage.Ready || p.Stage.Phases["reading"] != each || len(p.Stage.Partitions) != each || p.Stage.Lag > 0 { // no partition is moving between them
				return false
			}
		}
		return len(rep.Processes) == workers && len(rep.Silent) == 0 && rep.Partitions.Phases["reading"] == 8 && rep.Lag.Messages == 0
	}
	r.waitForReport("two workers that read", func(rep *fleet.Report) bool { return reads(rep, 2, 4) })
	for i := range 20 {
		r.publishSamples(fmt.Sprint("k", i), 5)
	}
	rep := r.waitForReport("answers to all messages", func(rep *fleet.Report) bool {
		return reads(rep, 2, 4) && first.counters.Stats().Messages+second.counters.Stats().Messages >= 20
	})
	if rep.Level != fleet.OK || !strings.HasPrefix(rep.Verdict, "8 partitions, 2 workers, up to date: last sample answered ") || rep.First != "" || len(rep.Findings) > 0 {
		t.Errorf("%s, %q, first %q, %+v", rep.Level, rep.Verdict, rep.First, rep.Findings)
	}
	if rep.Model.Name != "m.safetensors" || rep.Model.Differ || len(rep.Unknown) > 0 || rep.Disk.Bytes == 0 {
		t.Errorf("model %+v, unknown %v, disk %+v", rep.Model, rep.Unknown, rep.Disk)
	}
	var joined []string
	for _, p := range rep.Processes {
		if p.Role != fleet.RoleStage || p.Program != "v1.2.3" || len(p.Stage.Partitions) != 4 || p.Stage.Model.SHA256 != rep.Model.SHA256 {
			t.Errorf("a worker says %+v, %+v", p, p.Stage)
		}
		joined = append(joined, p.Stage.Worker)
	}
	for i, p := range rep.Partitions.List {
		if p.Partition != i || p.Epoch == 0 || !slices.Contains(joined, p.Worker) {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	second.kill()
	rep = r.waitForReport("the other worker to take over", func(rep *fleet.Report) bool { return reads(rep, 1, 8) })
	if !strings.HasPrefix(rep.Verdict, "8 partitions, 1 worker, up to date: ") {
		t.Errorf("%q", rep.Verdict)
	}
}

// TestKilledWorker: a killed worker is on the job's list until its lease ends. The report names the
// worker, and counts the waiting messages.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.startWorker(testModel(t), pipeline.Config{Partitions: 4, Lease: 2 * time.Minute})
	r.waitForReport("a worker that reads", func(rep *fleet.Report) bool { return rep.Partitions.Phases["reading"] == 4 })
	gone := w.counters.Status().Worker
	w.kill()
	for i := range 20 {
		r.publishSamples(fmt.Sprint("k", i), 5)
	}
	rep := r.report()
	if !slices.Equal(rep.Silent, []string{gone}) || rep.Partitions.Phases[fleet.PhaseNobody] != 4 || rep.Lag.Messages != 20 || rep.Lag.Behind == nil || *rep.Lag.Behind <= 0 {
		t.Errorf("silent %v, want %s; %+v, %+v", rep.Silent, gone, rep.Partitions, rep.Lag)
	}
	want := "4 partitions, 0 workers: no worker answers, although the job's list names " + gone + "; 20 messages wait to be answered, and nothing is lost"
	if rep.Level != fleet.Problem || rep.Verdict != want || rep.First == "" {
		t.Errorf("%s: %q, first %q", rep.Level, rep.Verdict, rep.First)
	}
}

// TestStoppedPartition: a foreign message stops its partition: the report names the partition and
// the reason.
func TestStoppedPartition(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conf := pipeline.Config{Partitions: 4}
	w := r.startWorker(testModel(t), conf)
	r.waitForReport("a worker that reads", func(rep *fleet.Report) bool { return rep.Partitions.Phases["reading"] == 4 })
	w.stop()
	rep := r.report()
	if rep.Level != fleet.Problem || rep.Verdict != "4 partitions, 0 workers: no worker runs" || !strings.HasPrefix(rep.First, "eusn-stream run") {
		t.Errorf("%s: %q, first %q", rep.Level, rep.Verdict, rep.First)
	}
	if _, err := r.js.Publish(t.Context(), wire.OutputSubject(job, 2), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	r.startWorker(testModel(t), conf)
	rep = r.waitForReport("a partition that is stopped", func(rep *fleet.Report) bool {
		return rep.Partitions.Phases["stopped"] == 1 && rep.Partitions.Phases["reading"] == 3 && len(rep.Errors) > 0
	})
	f := firstFinding(rep, "partitions")
	if f.Level != fleet.Problem || rep.Level != fleet.Problem || !strings.HasPrefix(f.Sentence, "1 partition (2) is stopped: ") || rep.First != f.Do || f.Do == "" {
		t.Errorf("%+v, first %q", f, rep.First)
	}
	if p := rep.Partitions.List[2]; p.Why == "" || p.Phase != "stopped" {
		t.Errorf("%+v", p)
	}
	if e := rep.Errors[len(rep.Errors)-1]; e.From == "" || e.Level != "ERROR" || !strings.Contains(e.Text, "partition stopped") {
		t.Errorf("errors %+v, want the line of the worker's log", rep.Errors)
	}
}

// TestModelsDiffer: workers have different model files that predict alike.
func TestModelsDiffer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := testModel(t)
	more := *other.Readouts[0]
	more.Name = "more"
	other.Readouts = append(other.Readouts, &more)
	if err := other.Validate(); err != nil {
		t.Fatal(err)
	}
	r.startWorker(testModel(t), pipeline.Config{Partitions: 4})
	r.startWorker(other, pipeline.Config{Partitions: 4})
	rep := r.waitForReport("two workers", func(rep *fleet.Report) bool {
		n := 0
		for _, p := range rep.Processes {
			if p.Stage.Ready {
				n++
			}
		}
		return n == 2
	})
	if f := firstFinding(rep, "model"); !rep.Model.Differ || f.Level != fleet.Attention || !strings.Contains(f.Do, "model show active") {
		t.Errorf("%+v, %+v", rep.Model, f)
	}
}

// TestHostileAnswers: invalid answers under the service name are only counted.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startWorker(testModel(t), pipeline.Config{Partitions: 4})
	r.waitForReport("a worker that reads", func(rep *fleet.Report) bool { return rep.Partitions.Phases["reading"] == 4 })
	bodies := [][]byte{
		nil, []byte("hello"), []byte("{}"), []byte("[1,2]"), []byte(strings.Repeat("[", 100_000)), make([]byte, 1<<20),
		[]byte(`{"form":2,"role":"stage","job":"eusn","id":"x","stage":{}}`),
		[]byte(`{"form":1,"role":"stage","job":"other","id":"x","stage":{}}`),
		[]byte(`{"form":1,"role":"gateway","job":"eusn","id":"x","stage":{}}`),
		fmt.Appendf(nil, `{"form":1,"role":"stage","job":"eusn","id":"x","host":%q}`, strings.Repeat("h", 900_000)),
	}
	evil, err := r.server.Connect("evil", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer evil.Close()
	for _, body := range bodies {
		if _, err := evil.Subscribe(wire.ReportSubject(job), func(m *nats.Msg) { _ = m.Respond(body) }); err != nil {
			t.Fatal(err)
		}
	}
	// A false worker with impossible figures.
	liar := fleet.Process{Form: fleet.Form, Role: fleet.RoleStage, Job: job, ID: "liar", Host: "\x1b[31mred\u202e", Stage: &fleet.Stage{
		Worker: "w", Phases: map[string]int{"reading": -5, "dancing": 7, "stopped": 1 << 30}, LeftOut: -1, Lag: -9,
		Partitions: []fleet.Partition{{Partition: -1, Phase: "reading"}, {Partition: 1 << 30, Phase: "reading"}, {Partition: 9, Phase: "reading"}, {Partition: 1, Phase: "dancing"}},
	}}
	lie, err := json.Marshal(&liar)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evil.Subscribe(wire.ReportSubject(job), func(m *nats.Msg) { _ = m.Respond(lie) }); err != nil {
		t.Fatal(err)
	}
	// Another service with the same name, and a service without a job.
	for _, meta := range []map[string]string{nil, {"job": "a.b"}, {"job": "theirs", "id": "1"}} {
		s, err := micro.AddService(evil, micro.Config{Name: wire.Service, Version: "9.9.9", Metadata: meta})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
	}
	if err := evil.Flush(); err != nil {
		t.Fatal(err)
	}
	rep := r.waitForReport("all answers", func(rep *fleet.Report) bool { return rep.Strange >= len(bodies) && len(rep.Processes) == 2 })
	if rep.Partitions.Phases["reading"] != 4 || rep.Partitions.Count != 4 {
		t.Errorf("partitions %+v", rep.Partitions)
	}
	for _, p := range rep.Processes {
		if strings.ContainsAny(p.Host, "\x1b\u202e") || p.Stage.Lag < 0 || p.Stage.LeftOut < 0 || len(p.Stage.Partitions) > 4 || p.Stage.Phases["dancing"] != 0 {
			t.Errorf("%+v, %+v", p, p.Stage)
		}
	}
	if f := firstFinding(rep, "answers"); f.Level != fleet.Attention {
		t.Errorf("%+v", rep.Findings)
	}
	found, err := fleet.Discover(t.Context(), r.nc, job)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for _, f := range found {
		jobs = append(jobs, f.Job)
	}
	if !slices.Equal(jobs, []string{job, "theirs"}) {
		t.Errorf("found %+v", found)
	}
}

// TestDiscovery: NATS' discovery finds a worker, its job and its name.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.startWorker(testModel(t), pipeline.Config{Partitions: 2})
	r.waitForReport("a worker that reads", func(rep *fleet.Report) bool { return rep.Partitions.Phases["reading"] == 2 })
	var info micro.Info
	r.waitForReport("a name in the metadata", func(*fleet.Report) bool {
		m, err := r.nc.Request("$SRV.INFO."+wire.Service, nil, time.Minute)
		return err == nil && json.Unmarshal(m.Data, &info) == nil && info.Metadata["worker"] == w.counters.Status().Worker
	})
	if info.Version != "1.2.3" || info.Metadata["job"] != job || info.Metadata["role"] != fleet.RoleStage || len(info.Endpoints) != 1 || info.Endpoints[0].Subject != wire.ReportSubject(job) {
		t.Errorf("%+v", info)
	}
	m, err := r.nc.Request("$SRV.STATS", nil, time.Minute)
	if err != nil || !strings.Contains(string(m.Data), `"name":"eusn-stream"`) {
		t.Errorf("%s, %v", m.Data, err)
	}
}

// TestLateAlarms: alarm processes are on no list. A report waits for a late alarm process, as on a
// busy machine, and does not report it as missing.
func TestLateAlarms(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startWorker(testModel(t), pipeline.Config{Partitions: 2})
	r.waitForReport("a worker that reads", func(rep *fleet.Report) bool { return rep.Partitions.Phases["reading"] == 2 })
	if _, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.AlarmStream(job), Subjects: []string{wire.AlarmSubjects(job)}}); err != nil {
		t.Fatal(err)
	}
	// The stage may have created an empty log; a message comes from an alarm process.
	if f := firstFinding(r.report(), "alarms"); f.Sentence != "" {
		t.Fatalf("%+v of an alarm log that nobody has begun", f)
	}
	if _, err := r.js.Publish(t.Context(), wire.AlarmRecordSubject(job), nil); err != nil {
		t.Fatal(err)
	}
	if f := firstFinding(r.report(), "alarms"); !strings.Contains(f.Sentence, "no alarm process answers") {
		t.Fatalf("%+v, want that nobody keeps the alarms", f)
	}
	nc, err := r.server.Connect("alarms", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	answer, err := json.Marshal(&fleet.Process{Form: fleet.Form, Role: fleet.RoleAlarms, Job: job, ID: "late", Watch: &fleet.Watch{Begun: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe(wire.ReportSubject(job), func(m *nats.Msg) {
		time.Sleep(500 * time.Millisecond) // longer than a report waits for unlisted processes
		_ = m.Respond(answer)
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	r.waitForReport("the late answer", func(rep *fleet.Report) bool {
		return firstFinding(rep, "alarms").Sentence == "" && len(rep.Processes) == 2 && len(rep.Silent) == 0
	})
}
